"""What is said of hfkv beside other tools is what it says today; their answers are data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from beside_others import measured, off, summary

from hfkv.core.report import analyze
from hfkv.core.snapshots import loads
from hfkv.core.workload import Workload

MODELS = Path(__file__).parent.parent / "fixtures" / "models"
# No snapshot: its header was made for the measurement.
MADE = "example/Llama-3.1-8B-GPTQ"
# The snapshot is in bf16, the measured header in MXFP4: only the cache is the same.
REPACKED = "openai/gpt-oss-20b"
# What cross-attention saw in the run that is the truth: benchmarks/alternatives.py, SOURCES.
SOURCES = {"google-t5/t5-small": 512, "meta-llama/Llama-3.2-11B-Vision-Instruct": 0}
ASKED = [model for model in measured()["models"] if model["id"] != MADE]


@pytest.mark.parametrize("model", ASKED, ids=lambda model: model["id"])
def test_hfkv_still_says_what_the_table_says(model: dict[str, Any]) -> None:
    """Offline, from the snapshot of the same repository."""
    name = model["id"]
    path = MODELS / f"{name.replace('/', '--')}.hfkv.json"
    work = Workload(
        context=measured()["lengths"].get(name, measured()["tokens"]),
        kv_dtype="bf16",
        engine="transformers",
        source_tokens=SOURCES.get(name),
    )
    report = analyze(loads(path.read_bytes(), where=path.name), work)
    assert report.weights is not None
    assert report.kv is not None
    said = model["answers"]["hfkv"]
    assert report.kv.bytes == said["kv"] == model["truth"]["kv"]
    if name != REPACKED:
        assert report.weights.bytes == said["weights"] == model["truth"]["weights"]


@pytest.mark.parametrize("model", ASKED, ids=lambda model: model["id"])
def test_the_raw_need_is_near_the_truth_too(model: dict[str, Any]) -> None:
    """Within 3 % without a word on the engine; images that may come add 5 %, as the page says."""
    path = MODELS / f"{model['id'].replace('/', '--')}.hfkv.json"
    tokens = measured()["lengths"].get(model["id"], measured()["tokens"])
    kv = analyze(loads(path.read_bytes(), where=path.name), Workload(context=tokens)).kv
    assert kv is not None
    multiple = kv.bytes / model["truth"]["kv"]
    if "Vision" in model["id"]:
        assert round(multiple, 2) == 1.05
    else:
        assert abs(multiple - 1) < 0.03


def test_the_truth_is_not_taken_from_a_contender() -> None:
    """Three of them by hand: grouped heads, latents with a rotary part, float32 states."""
    truth = {model["id"]: model["truth"]["kv"] for model in measured()["models"]}
    assert truth["meta-llama/Llama-3.1-8B"] == 2 * 32 * 8 * 128 * 2 * 32_768
    assert truth["deepseek-ai/DeepSeek-V3"] == 61 * (512 + 64) * 2 * 32_768
    assert truth["tiiuae/falcon-mamba-7b"] == 64 * 8192 * (16 * 4 + 4 * 2)


def test_every_answer_is_counted_once() -> None:
    """Right, wrong or silent: each tool's three numbers sum to the number of models, twice."""
    rows = [row.strip("| ").split(" | ") for row in summary().splitlines()[2:]]
    assert len(rows) == len(ASKED[0]["answers"])
    for _, *numbers in rows:
        counts = [int(number) for number in numbers]
        assert sum(counts[:3]) == sum(counts[3:]) == len(measured()["models"])


def test_an_answer_is_told_as_a_multiple_of_the_truth() -> None:
    """Every layer of Gemma-3 as if it had no window, beside what it keeps; silence is none."""
    (gemma,) = (model for model in measured()["models"] if model["id"] == "google/gemma-3-27b-it")
    assert off(gemma, "accelerate", "kv") is None
    assert off(gemma, "hf-mem", "kv") == 62 * 2 * 16 * 128 * 2 * 32_768 / 3_120_136_192
