"""The length that vLLM serves where none is asked for: what it makes of the rope's factor."""

from __future__ import annotations

from typing import Any

import pytest
from asked import GEMMA_27B, LLAMA_8B, stored

from hfkv.core.files import ModelFiles, Target
from hfkv.core.gpus import parse_gpu
from hfkv.core.report import Report, analyze
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
