"""The format of the cache where nobody names one, and the engine has its own for the GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hfkv.core.files import ModelFiles, Target
from hfkv.core.gpus import parse_gpu
from hfkv.core.report import analyze
from hfkv.core.workload import Deployment, Workload

CONFIGS = Path(__file__).parent.parent / "fixtures" / "configs"
GLM_5 = "zai-org--GLM-5"  # 78 layers, each with an indexer
V32 = "deepseek-ai--DeepSeek-V3.2-Exp"  # 61 layers, each with an indexer
WIDE, PACKED, INDEX = 576 * 2, 656, 132  # bytes of a token in one layer


@pytest.mark.parametrize(
    ("model", "engine", "gpu", "version", "size"),
    [
        (GLM_5, "vllm", "b200:8", None, 78 * (PACKED + INDEX)),
        (GLM_5, "vllm", "b200:8", "0.30.0", 78 * (WIDE + INDEX)),
        (GLM_5, "vllm", "h200:8", None, 78 * (WIDE + INDEX)),
        (V32, "vllm", "b200:8", None, 61 * (WIDE + INDEX)),
        (GLM_5, "sglang", "b200:8", None, 78 * (PACKED + INDEX)),
        (V32, "sglang", "b200:8", None, 61 * (PACKED + INDEX)),
        (V32, "sglang", "h200:8", None, 61 * (WIDE + INDEX)),
    ],
)
def test_sparse_latents_on_blackwell(
    model: str, engine: str, gpu: str, version: str | None, size: int
) -> None:
    """GLM-5 is in fp8 there under vLLM 0.32, every model with an indexer under SGLang 0.5.23."""
    config = json.loads((CONFIGS / model / "config.json").read_bytes())
    config.pop("quantization_config", None)
    deployment = Deployment(gpus=tuple(parse_gpu(gpu)), engine_version=version)
    report = analyze(
        ModelFiles(target=Target(kind="file", id=model), config=config),
        Workload(context=16_384, engine=engine, deployment=deployment),
    )
    assert report.kv is not None
    assert report.kv.bytes_per_token == size
    if size in (78 * (PACKED + INDEX), 61 * (PACKED + INDEX)):
        assert report.kv.dtype == "fp8_e4m3"
        assert report.kv.dtype_source.startswith("default of ")


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_each_gpu_has_its_own(engine: str) -> None:
    """The kinds of GPU of one question do not share a format, in either order."""
    config = json.loads((CONFIGS / GLM_5 / "config.json").read_bytes())
    files = ModelFiles(target=Target(kind="file", id=GLM_5), config=config)
    for order in (("h200:8", "b200:8"), ("b200:8", "h200:8")):
        gpus = tuple(gpu for text in order for gpu in parse_gpu(text))
        work = Workload(context=16_384, engine=engine, deployment=Deployment(gpus=gpus))
        found = {fit.gpu: fit.kv_bytes_per_sequence_per_gpu for fit in analyze(files, work).fit}
        assert found["h200"] == 16_384 * 78 * (WIDE + INDEX)
        assert found["b200"] == 16_384 * 78 * (PACKED + INDEX)
