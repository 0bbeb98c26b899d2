"""analyze(): formats, findings, and what happens when something cannot be known."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hfkv
from hfkv.core.codes import EXPLAINED
from hfkv.core.files import ModelFiles, Problem, Target, TensorGroup
from hfkv.core.gpus import parse_gpu
from hfkv.core.report import Report, analyze
from hfkv.core.workload import Deployment, Workload
from hfkv.errors import MalformedError, UsageError

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 64,
    "max_position_embeddings": 1024,
    "dtype": "bfloat16",
}


def files(tensors: tuple[TensorGroup, ...] = (), **keys: Any) -> ModelFiles:
    """Return a small llama with some keys changed (None removes one)."""
    config = {key: value for key, value in {**LLAMA, **keys}.items() if value is not None}
    return ModelFiles(target=Target(kind="file", id="x"), config=config, tensors=tensors)


def codes(report: Report) -> set[str]:
    """Return the codes of a report's findings."""
    return {finding.code for finding in report.findings}


def message(report: Report, code: str) -> str:
    """Return the message of one finding."""
    (found,) = [finding.message for finding in report.findings if finding.code == code]
    return found


def test_the_same_files_give_the_same_report() -> None:
    """A report is deterministic and survives pickling."""
    report = analyze(files())
    assert report == analyze(files())
    assert pickle.loads(pickle.dumps(report)) == report  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("keys", "wanted", "dtype", "source"),
    [
        ({}, "auto", "bfloat16", "config.json: dtype"),
        ({"dtype": None, "torch_dtype": "float16"}, "auto", "float16", "config.json: torch_dtype"),
        ({}, "fp8", "fp8", "--kv-dtype"),
        (
            {"dtype": "float32"},
            "auto",
            "bfloat16",
            "16 bit, as engines do not serve the float32 of config.json: dtype",
        ),
        (
            {"dtype": None},
            "auto",
            "bfloat16",
            "assumed: neither config nor tensors name a dtype, and engines serve 16 bit",
        ),
        (
            {
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "kv_cache_scheme": {"num_bits": 8, "type": "float"},
                }
            },
            "auto",
            "fp8",
            None,
        ),
    ],
)
def test_the_cache_format_and_who_chose_it(
    keys: dict[str, Any], wanted: str, dtype: str, source: str | None
) -> None:
    """The user's word, else the checkpoint's, else the compute dtype, else 16 bit, said so."""
    kv = analyze(files(**keys), Workload(kv_dtype=wanted)).kv
    assert kv is not None
    assert kv.dtype == dtype
    assert source is None or kv.dtype_source == source


def test_the_commonest_float_of_the_tensors_stands_in() -> None:
    """gpt2's config names no dtype: its tensors do."""
    tensors = (
        TensorGroup(name="norm.weight", dtype="F32", shape=(4,), nbytes=16),
        TensorGroup(name="lm_head.weight", dtype="F16", shape=(8, 4), nbytes=64),
    )
    kv = analyze(files(tensors, dtype=None)).kv
    assert kv is not None
    assert (kv.dtype, kv.dtype_source) == ("float16", "commonest float dtype of the tensors")


def test_transformers_serves_float32_as_it_is() -> None:
    """The serving engines cast to 16 bit, transformers keeps 32: twice the bytes."""
    served, kept = (
        analyze(files(dtype="float32"), Workload(engine=name)).kv
        for name in ("none", "transformers")
    )
    assert served is not None
    assert kept is not None
    assert kept.bytes == 2 * served.bytes


def test_float32_weights_take_half_where_the_engine_computes_in_16_bit() -> None:
    """1 GiB of float32 is 512 MiB on the GPU under vLLM, 1 GiB under transformers."""
    tensor = TensorGroup(
        name="model.embed_tokens.weight", dtype="F32", shape=(2**20, 2**8), nbytes=2**30
    )
    stored = files((tensor,), dtype="float32")
    served, kept = (analyze(stored, Workload(engine=name)) for name in ("none", "transformers"))
    assert served.weights is not None
    assert kept.weights is not None
    assert (served.weights.bytes, served.weights.loaded_bytes) == (2**30, 2**29)
    assert kept.weights.loaded_bytes == 2**30


def test_a_lone_config_has_no_weights_and_says_so() -> None:
    """Nothing but config.json: the cache as usual, weights unknown."""
    report = analyze(files())
    assert report.weights is None
    assert report.kv is not None
    assert message(report, "weights-unknown") == (
        "no weights were read: sizes and parameters are not known"
    )


def test_no_config_leaves_the_cache_unknown() -> None:
    """Without config.json there is no cache figure, never a zero."""
    report = analyze(ModelFiles(target=Target(kind="hub", id="a/b")))
    assert report.kv is None
    assert message(report, "architecture-unknown") == "there is no config.json to read"


def test_contexts_beyond_and_without_a_maximum() -> None:
    """More than the maximum is computed with a warning; no maximum means 4,096, said so."""
    beyond = analyze(files(), Workload(context=4096))
    assert beyond.kv is not None
    assert beyond.kv.bytes == 2 * 2 * 2 * 16 * 2 * 4096  # 2 layers x k, v x 2 heads x 16 x 2 B
    assert message(beyond, "context-above-maximum") == (
        "4,096 tokens are more than the model's 1,024"
    )
    endless = analyze(files(model_type="bloom", max_position_embeddings=None))
    assert endless.kv is not None
    assert endless.kv.tokens == 4096
    assert "context-assumed" in codes(endless)


def test_windows_that_change_nothing_are_named() -> None:
    """A window that is off, and one that is longer than the context."""
    off = analyze(files(model_type="qwen2", sliding_window=512, use_sliding_window=False))
    assert message(off, "window-unused") == (
        "sliding_window is 512 and switched off: every token is kept"
    )
    long = analyze(files(model_type="mistral", sliding_window=2048))
    assert message(long, "window-beyond-context") == (
        "the window of 2,048 tokens is not shorter than 1,024 tokens"
    )
    assert long.kv is not None
    assert long.kv.simple_formula.applies


def test_parallelism_that_does_not_divide_is_named() -> None:
    """Two KV heads on four GPUs are copied; a latent cache is on every GPU."""
    four = Deployment(gpus=parse_gpu("24gib:4"))
    assert message(analyze(files(), Workload(deployment=four)), "replicated-heads") == (
        "2 KV heads on 4 GPUs: each GPU holds one whole head"
    )
    latent = files(model_type="deepseek_v3", kv_lora_rank=16, qk_rope_head_dim=8)
    assert "replicated-latent" in codes(analyze(latent, Workload(deployment=four)))


def test_quantized_weights_and_an_unquantized_cache_are_two_lines() -> None:
    """int4 weights do not make an int4 cache."""
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128}
    report = analyze(files(quantization_config=awq))
    assert message(report, "kv-dtype-not-declared") == (
        "the weights are quantized (awq), the KV cache is still bfloat16"
    )


def test_reading_problems_become_findings() -> None:
    """What was odd while reading is told under its own code."""
    odd = replace(files(), problems=(Problem(code="missing-shard", message="one is missing"),))
    assert message(analyze(odd), "missing-shard") == "one is missing"


def test_remote_code_is_named_only_where_it_is_needed() -> None:
    """auto_map in a file of a class that transformers has is history, not a need."""
    code = {"AutoConfig": "configuration_x.X"}
    assert "remote-code" in codes(analyze(files(model_type="brandnew", auto_map=code)))
    assert "remote-code" not in codes(analyze(files(auto_map=code)))


def test_an_engine_that_keeps_something_else_says_so() -> None:
    """Transformers keeps W-1 tokens of a window of 16: 15 x 256 bytes instead of 16 x 256."""
    windowed = files(model_type="mistral", sliding_window=16)
    report = analyze(windowed, Workload(engine="transformers"))
    # 2 layers x k, v x 2 heads x 16 x 2 bytes = 256 bytes a token
    assert message(report, "engine-layout") == (
        "transformers keeps 3,840 bytes a sequence where the model needs 4,096"
    )
    assert "engine-layout" not in codes(analyze(windowed))


@pytest.mark.parametrize(
    ("engine", "version", "said"),
    [
        ("vllm", None, None),
        ("vllm", "0.6.3.post1", None),
        ("vllm", "0.32.0", None),
        ("vllm", "0.33.1", "the rules are those of vLLM 0.32, the newest that is known"),
        ("vllm", "0.5.4", "the rules are those of vLLM 0.6, the oldest that is known"),
        ("SGLang", "0.5.23", "--engine-version changes nothing for SGLang"),
        ("none", "0.19", "--engine-version changes nothing for the raw need"),
    ],
)
def test_a_version_without_rules_of_its_own_says_so(
    engine: str, version: str | None, said: str | None
) -> None:
    """Those of vLLM 0.6 to 0.32 were read: `vllm_kv.md`."""
    work = Workload(engine=engine, deployment=Deployment(engine_version=version))
    report = analyze(files(), work)
    assert ("engine-version" in codes(report)) is (said is not None)
    if said is not None:
        assert message(report, "engine-version") == said


def test_codes_are_the_ones_that_are_used() -> None:
    """Every code in the list is given somewhere, and every code that is given is in the list."""
    package = Path(hfkv.__file__).parent
    source = "".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    for code in EXPLAINED:
        assert source.count(f'"{code}"') >= 2, code
    given = set(re.findall(r'(?:Finding|Problem)\(\s*(?:code=)?"([a-z0-9-]+)"', source))
    assert given <= set(EXPLAINED)


def test_every_code_is_explained() -> None:
    """Each code has one sentence that ends, for the README."""
    for code, sentence in EXPLAINED.items():
        assert code == code.lower()
        assert sentence.endswith(".")


@pytest.mark.parametrize(
    ("workload", "sentence"),
    [
        (Workload(context=0), "a sequence length must be a positive number of tokens"),
        (Workload(seq_lens=(5, -1)), "a sequence length must be a positive number of tokens"),
        (Workload(sequences=0), "the concurrency must be a positive number of sequences"),
        (Workload(source_tokens=-1), "--source-tokens must not be negative"),
        (Workload(engine="tgi"), "unknown engine 'tgi'"),
        (Workload(kv_dtype="int3"), "unknown KV dtype 'int3'"),
    ],
)
def test_workloads_that_make_no_sense(workload: Workload, sentence: str) -> None:
    """A request that makes no sense is refused by a sentence."""
    with pytest.raises(UsageError) as error:
        analyze(files(), workload)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (
            {"num_hidden_layers": -3},
            "config.json: num_hidden_layers: -3 is negative, and this is a count",
        ),
        (
            {"num_hidden_layers": 10**9},
            "config.json: num_hidden_layers: 1,000,000,000 layers; no model has more than 1000",
        ),
        (
            {"hidden_size": "big"},
            'config.json: hidden_size: expected a whole number, got "big"',
        ),
    ],
)
def test_configs_that_make_no_sense(keys: dict[str, Any], sentence: str) -> None:
    """A malformed config is told with its key."""
    with pytest.raises(MalformedError) as error:
        analyze(files(**keys))
    assert str(error.value) == sentence


def test_integral_floats_are_numbers() -> None:
    """32.0 layers are 32 layers."""
    report = analyze(files(num_hidden_layers=2.0, hidden_size=64.0))
    assert report.architecture.num_hidden_layers == 2


def test_packed_engine_formats_take_the_simple_formula_back() -> None:
    """With a scale per token and head, vLLM takes 136 bytes for a 128-dim pair in int4."""
    wide = files(head_dim=128, num_attention_heads=2, num_key_value_heads=1)
    kv = analyze(wide, Workload(engine="vllm", kv_dtype="int4_per_token_head", context=16)).kv
    assert kv is not None
    assert kv.bytes == 2 * 16 * 136
    assert not kv.simple_formula.applies
    assert kv.simple_formula.codes == ("engine-layout",)
