"""The length that vLLM serves where none is asked for: what it makes of the rope's factor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from asked import GEMMA_27B, LLAMA_8B, stored

from hfkv.core.architecture import read_architecture
from hfkv.core.config import Config
from hfkv.core.descend import decoder_part
from hfkv.core.files import ModelFiles, Target
from hfkv.core.gpus import parse_gpu
from hfkv.core.positions import position_elements
from hfkv.core.report import Report, analyze
from hfkv.core.ropes import ropes_of
from hfkv.core.workload import Deployment, Workload

QWEN = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "num_hidden_layers": 28,
    "hidden_size": 3584,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152_064,
    "max_position_embeddings": 32_768,
    "torch_dtype": "bfloat16",
}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
LINEAR = {"type": "linear", "factor": 4.0}


def served(config: dict[str, Any], version: str, engine: str = "vllm") -> Report:
    """Return the report of a config whose length is the engine's choice."""
    deployment = Deployment(gpus=parse_gpu("h100"), engine_version=version)
    files = ModelFiles(target=Target(kind="file", id="config.json"), config=config)
    return analyze(files, Workload(engine=engine, deployment=deployment))


@pytest.mark.parametrize(
    ("rope", "version", "tokens"),
    [
        ({"rope_scaling": LINEAR}, "0.32.0", 4 * 32_768),
        ({"rope_scaling": {"type": "dynamic", "factor": 1.5}}, "0.12.0", 49_152),
        ({"rope_scaling": YARN}, "0.28.0", 4 * 32_768),
        ({"rope_scaling": YARN}, "0.30.0", 32_768),  # taken to be scaled already
        ({"rope_scaling": {**YARN, "type": "llama3"}}, "0.32.0", 32_768),
        ({"rope_parameters": {"full": {"rope_type": "linear", "factor": 2}}}, "0.32", 65_536),
        ({"rope_scaling": {"type": "linear", "factor": "4"}}, "0.32.0", 32_768),
        ({}, "0.32.0", 32_768),
    ],
)  # fmt: skip
def test_a_factor_stretches_what_vllm_serves(
    rope: dict[str, Any], version: str, tokens: int
) -> None:
    """Source: vLLM 0.28 and 0.32, config/model.py, `_get_and_verify_max_len`."""
    report = served({**QWEN, **rope}, version)
    assert report.kv is not None
    assert report.kv.tokens == tokens
    warned = [
        finding.message for finding in report.findings if "unless it is told" in finding.message
    ]
    assert bool(warned) is (tokens != 32_768)


def test_gemma_3_states_what_it_was_stretched_to() -> None:
    """131,072 and a factor of 8: vLLM serves 131,072. Without an engine a factor is nobody's."""
    report = served(stored(GEMMA_27B).config or {}, "0.32.0")
    assert report.kv is not None
    assert report.kv.tokens == 131_072
    plain = analyze(stored(LLAMA_8B), Workload())
    assert plain.kv is not None
    assert plain.kv.tokens == 131_072


def test_only_beyond_that_the_server_must_be_told() -> None:
    """The command of a stretched length needs no allowance."""
    deployment = Deployment(gpus=parse_gpu("h100"), max_num_seqs=8)
    lines: list[str] = []
    for context in (4 * 32_768, 4 * 32_768 + 1):
        files = ModelFiles(
            target=Target(kind="file", id="config.json"), config={**QWEN, "rope_scaling": LINEAR}
        )
        work = Workload(context=context, engine="vllm", deployment=deployment)
        lines += analyze(files, work).fit[0].commands
    assert [line.startswith("VLLM_ALLOW_LONG_MAX_MODEL_LEN=1") for line in lines] == [False, True]


# --- which of the keys is the rope ------------------------------------------------------------

CONFIGS = Path(__file__).parent.parent / "fixtures" / "configs"
PHI3 = "microsoft--Phi-3-mini-128k-instruct"
GPT_OSS = "openai--gpt-oss-20b"
LAGUNA = "poolside--Laguna-XS.2-FP8"
GEMMA_4 = "google--gemma-4-26B-A4B"


def _changed(model: str, **changes: Any) -> dict[str, Any]:
    """Return a published config with other values at the top of its decoder's part."""
    config: dict[str, Any] = json.loads((CONFIGS / model / "config.json").read_bytes())
    if "text_config" in config:
        return {**config, "text_config": {**config["text_config"], **changes}}
    return {**config, **changes}


def _read(config: dict[str, Any]) -> tuple[int, int | None, int | None, int | None]:
    """Return the elements of position tables, and the lengths that are made of the ropes."""
    files = ModelFiles(target=Target(kind="file", id="config.json"), config=config)
    arch = read_architecture(files)
    tables = position_elements(config, arch)
    return tables, arch.original_max_context, arch.stretch.tokens, arch.stretch.yarn_tokens


def _ropes(config: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return list(ropes_of(decoder_part(Config(config))))


def test_ropes_by_kind_of_layer() -> None:
    """Laguna: YaRN of 4,096 x 64 on half of 128 dims, and plain windows; what is no rope is not."""
    names = [name for name, _ in _ropes(_changed(LAGUNA))]
    assert names == ["rope_parameters.full_attention", "rope_parameters.sliding_attention"]
    yarn, plain = 4096 * 64 * 64, 262_144 * 128
    assert _read(_changed(LAGUNA)) == (yarn + plain, None, None, 4096 * 64)


NEWER = {"rope_type": "default", "rope_theta": 10_000.0}


@pytest.mark.parametrize("model", [PHI3, GPT_OSS, GEMMA_27B, "deepseek-ai--DeepSeek-V3"])
def test_the_older_name_is_the_rope_where_both_are_stated(model: str) -> None:
    """As transformers 5: `rope_scaling or rope_parameters`; an empty one is none."""
    before = _read(_changed(model))
    assert _read(_changed(model, rope_parameters=NEWER)) == before
    (_, rope), *_ = _ropes(_changed(model))
    absent: tuple[object, ...] = ({}, None)
    for none in absent:
        assert _read(_changed(model, rope_parameters=rope, rope_scaling=none)) == before


def test_the_older_name_beside_ropes_by_kind_is_that_of_full_attention() -> None:
    """As transformers 5, configuration_gemma3.py: it updates `full_attention`, and nothing else."""
    linear = {"rope_type": "linear", "factor": 8.0}
    assert _ropes(_changed(GEMMA_4, rope_scaling=linear)) == [
        (
            "rope_parameters.full_attention",
            {"partial_rotary_factor": 0.25, "rope_theta": 1e6, **linear},
        ),
        ("rope_parameters.sliding_attention", {"rope_theta": 1e4, "rope_type": "default"}),
    ]
    # Gemma-3 as its file is, and as transformers 5 would write it
    both = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    assert _read(_changed(GEMMA_27B, rope_parameters=both)) == _read(_changed(GEMMA_27B))


def test_a_rope_by_kind_that_has_no_full_attention_is_replaced() -> None:
    """DeepSeek-V4 calls its ropes main and compress: there is nothing to update."""
    both = {"main": NEWER, "compress": NEWER}
    config = _changed(GPT_OSS, rope_parameters=both)
    assert _ropes(config) == _ropes(_changed(GPT_OSS))
    assert len(_ropes(_changed(GPT_OSS, rope_parameters=both, rope_scaling=None))) == 2


def test_a_length_outside_the_rope_goes_before_its_own() -> None:
    """Phi-3 states 4,096 outside: 4,096 short and 131,072 long positions of 96 dims."""
    rope = {"type": "longrope", "original_max_position_embeddings": 8192}
    for config in (_changed(PHI3), _changed(PHI3, rope_scaling=rope)):
        assert _read(config) == ((4096 + 131_072) * 96, 4096, None, None)
    # gpt-oss has YaRN of 4,096 x 32 and 64 dims
    outside = _changed(GPT_OSS, original_max_position_embeddings=2048)
    assert _read(outside) == (2048 * 32 * 64, None, None, 2048 * 32)


def test_the_newer_name_of_the_kind_goes_first() -> None:
    """As in transformers, where `type` is looked at only without `rope_type`."""
    rope = {"rope_type": "linear", "factor": 2.0, "type": "longrope"}
    assert _read({**QWEN, "rope_scaling": rope})[1:] == (None, 65_536, None)
