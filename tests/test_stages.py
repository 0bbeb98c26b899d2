"""What a sequence takes on each stage of a pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hfkv.cli import main
from hfkv.core.engines.registry import ENGINES

FIXTURES = Path(__file__).parent.parent / "fixtures"
LLAMA = str(FIXTURES / "models" / "meta-llama--Llama-3.1-8B.hfkv.json")
DEEPSEEK = str(FIXTURES / "models" / "deepseek-ai--DeepSeek-V3.hfkv.json")
NEMOTRON = str(FIXTURES / "configs" / "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16" / "config.json")
LAYER = 4096 * 4096  # bytes: 4,096 tokens of 2 x 8 heads x 128 in 16 bit in one layer of Llama 8B
FIGURES = ("ideal_bytes_per_sequence", "admission_bytes_per_sequence", "steady_bytes_per_sequence")


def told(capsys: pytest.CaptureFixture[str], model: str, argv: str) -> str:
    """Return what inspect prints."""
    main(["inspect", model, *argv.split()])
    return capsys.readouterr().out


def stages(capsys: pytest.CaptureFixture[str], model: str, argv: str) -> list[dict[str, Any]]:
    """Return the stages of a document."""
    found: list[dict[str, Any]] = json.loads(told(capsys, model, f"{argv} --json"))["kv_cache"][
        "per_stage"
    ]
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_says_what_each_stage_holds(
    engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """32 layers in 3 stages: 11, 11 and 10; 4,096 tokens are whole blocks for everyone."""
    found = stages(capsys, LLAMA, f"-c 4k --pp 3 --kv-dtype fp16 --engine {engine}")
    assert [(one["layers"], one["indices"]) for one in found] == [
        (11, "0-10"),
        (11, "11-21"),
        (10, "22-31"),
    ]
    for key in FIGURES:
        assert [one[key] for one in found] == [11 * LAYER, 11 * LAYER, 10 * LAYER]


def test_tensor_parallelism_is_within_a_stage(capsys: pytest.CaptureFixture[str]) -> None:
    """On 2 x 2 GPUs a rank holds 4 of 8 heads of 16 of 32 layers."""
    found = stages(capsys, LLAMA, "-c 4k -g h100:4 --pp 2 --engine vllm")
    assert [[one[key] for key in FIGURES] for one in found] == [[16 * LAYER // 2] * 3] * 2


def test_llama_cpp_makes_a_stage_of_each_card(capsys: pytest.CaptureFixture[str]) -> None:
    """It splits the layers where nobody asks for it."""
    found = stages(capsys, LLAMA, "-c 4k -g 4x24gib --engine llama.cpp")
    assert [one["indices"] for one in found] == ["0-7", "8-15", "16-23", "24-31"]


@pytest.mark.parametrize("engine", ENGINES)
def test_one_stage_is_not_told_apart(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`per_gpu` says it all."""
    assert stages(capsys, LLAMA, f"-c 4k -g h100 --engine {engine}") == []


@pytest.mark.parametrize("engine", ["none", "vllm", "sglang"])
def test_only_layers_with_a_cache_count(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nemotron-H's stages of 26 layers each: M and * keep something, E does not."""
    pattern = json.loads(Path(NEMOTRON).read_text(encoding="utf-8"))["hybrid_override_pattern"]
    halves = pattern[: len(pattern) // 2], pattern[len(pattern) // 2 :]
    found = stages(capsys, NEMOTRON, f"-c 4k --pp 2 --engine {engine}")
    assert [one["layers"] for one in found] == [len(half) - half.count("E") for half in halves]


def test_the_drafter_is_on_the_last_stage(capsys: pytest.CaptureFixture[str]) -> None:
    """DeepSeek-V3 has 61 layers in stages of 15, 15, 16 and 15; its MTP layer is the 62nd."""
    argv = "-c 4k -g h200:4 --pp 4 --engine vllm --num-speculative-tokens 1"
    found = stages(capsys, DEEPSEEK, argv)
    assert [one["indices"] for one in found] == ["0-14", "15-29", "30-45", "46-61"]


@pytest.mark.parametrize("form", ["text", "md"])
def test_the_fullest_stage_is_named(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Where one is fuller than others."""
    one = told(capsys, DEEPSEEK, f"-c 4k -g h200:4 --pp 4 --engine vllm -f {form}")
    assert "Stage 3 of 4 is the fullest, with 16 layers." in one
    same = told(capsys, LLAMA, f"-c 4k -g h100:4 --pp 4 --engine vllm -f {form}")
    assert "ideal" in same
    assert "fullest" not in same
