"""Memory that a class keeps beside its cache, or instead of it, and widths it derives.

Expected values are worked out here from transformers 5.24's classes, named in each test.
"""

from __future__ import annotations

from typing import Any

import pytest

from hfkv.core.architecture import read_architecture
from hfkv.core.files import ModelFiles, Target
from hfkv.core.report import Report, analyze
from hfkv.core.stores import LayerKind
from hfkv.core.workload import Workload


def report(*, context: int = 8192, engine: str = "none", **config: Any) -> Report:
    """Analyze one config in bfloat16."""
    files = ModelFiles(target=Target(kind="file", id="x"), config={"dtype": "bfloat16", **config})
    return analyze(files, Workload(context=context, engine=engine))


def cache(**how: Any) -> int:
    """Return the bytes of one sequence."""
    kv = report(**how).kv
    assert kv is not None
    return kv.bytes


QWEN4 = {
    "model_type": "qwen4_exp_text",
    "num_hidden_layers": 4,
    "hidden_size": 2048,
    "layer_types": ["linear_attention"] * 3 + ["full_attention"],
}


@pytest.mark.parametrize("engine", ["none", "transformers"])
def test_per_layer_embeddings_keep_a_convolution_and_token_ids(engine: str) -> None:
    """Qwen4ExpPLELayer: 4 streams of 2048, kernel 4 dilated by 3: 9 columns; 2 int64 ids."""
    plain = cache(**QWEN4, engine=engine)
    one = cache(**QWEN4, ple_layer_ids=[2], engine=engine)
    two = cache(**QWEN4, ple_layer_ids=[1, 3], engine=engine)
    each = 4 * 2048 * (4 - 1) * 3 * 2 + 2 * 8
    assert (one - plain, two - plain) == (each, 2 * each)


def test_per_layer_embeddings_have_sizes_of_their_own() -> None:
    """2 streams of 64, kernel 3 dilated by 4: 8 columns; 3 ids. An attention layer has it too."""
    config = {**QWEN4, "hidden_size": 64, "hc_count": 2, "ple_conv_kernel_size": 3}
    config |= {"ngram_size": 4}
    names = ["linear_attention"] * 3 + ["hybrid_indexed"]
    extra = cache(**{**config, "layer_types": names, "ple_layer_ids": [4]}) - cache(**config)
    assert extra == 2 * 64 * (3 - 1) * 4 * 2 + 3 * 8


XLNET = {"model_type": "xlnet", "n_layer": 24, "d_model": 1024, "n_head": 16}


@pytest.mark.parametrize("engine", ["none", "transformers"])
@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ({}, 512),  # XLNetConfig: mem_len = 512
        ({"mem_len": 1024}, 1024),
        ({"mem_len": None}, 8192),  # xlnet-base-cased: all hidden states, as GPT-2 would
        ({"mem_len": 0}, 8192),
        ({"mem_len": 100_000}, 8192),
        ({"use_mems_eval": False}, 0),
    ],
)
def test_xlnet_keeps_the_last_mem_len_hidden_states(
    config: dict[str, Any], tokens: int, engine: str
) -> None:
    """XLNetModel.cache_mem: `torch.cat([prev_mem, curr_out])[-mem_len:]` in each layer."""
    assert cache(**XLNET, **config, engine=engine) == 24 * 1024 * 2 * tokens


@pytest.mark.parametrize(
    "model_type",
    ["deepseek_ocr2_text", "unlimited_ocr_text", "cohere2", "cohere_compass_text"],
)
def test_a_class_that_derives_head_dim_passes_over_the_file(model_type: str) -> None:
    """`self.head_dim = self.hidden_size // self.num_attention_heads`: 1280 / 10 = 128."""
    config = {
        "model_type": model_type,
        "hidden_size": 1280,
        "num_attention_heads": 10,
        "num_key_value_heads": 10,
        "num_hidden_layers": 2,
        "head_dim": 64,
        "v_head_dim": 192,
        "kv_lora_rank": 512,
        "sliding_window": None,
    }
    files = ModelFiles(target=Target(kind="file", id="x"), config=config)
    arch = read_architecture(files)
    sources = {reading.field: reading.source for reading in arch.readings}
    assert (arch.attention, arch.head_dim, arch.v_head_dim) == ("MHA", 128, 128)
    assert sources["head_dim"] == "hidden_size / num_attention_heads"


def test_recurrent_gemma_derives_head_dim_too() -> None:
    """Its class overwrites head_dim: 2560 / 10 = 256."""
    arch = report(model_type="recurrent_gemma", num_hidden_layers=3, head_dim=32).architecture
    assert arch.head_dim == 256


def test_a_prompt_that_is_kept_whole_is_told() -> None:
    """Unlimited-OCR's window is over generated tokens: all are counted, and a warning says so."""
    found = report(model_type="unlimited_ocr_text")
    messages = {finding.code: finding.message for finding in found.findings}
    assert messages["prompt-kept"] == (
        "the window of 128 tokens is over generated ones only: every token is counted as prompt, "
        "which is the most that is kept"
    )
    assert {layer.kind for layer in found.architecture.layers} == {LayerKind.FULL}
    off = report(model_type="unlimited_ocr_text", sliding_window=None)
    assert "prompt-kept" not in {finding.code for finding in off.findings}
