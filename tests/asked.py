"""What tests of whole answers share: a fixture's model, an engine, GPUs → the report."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from math import prod
from pathlib import Path
from typing import Any
from unicodedata import bidirectional, category

from hfkv.core.files import ModelFiles, TensorGroup
from hfkv.core.fit import FitReport
from hfkv.core.gpus import parse_gpu
from hfkv.core.report import Report, analyze
from hfkv.core.snapshots import loads
from hfkv.core.workload import Deployment, Workload

GIB = 2**30
MODELS = Path(__file__).parent.parent / "fixtures" / "models"

LLAMA_8B = "meta-llama--Llama-3.1-8B"
LLAMA_70B = "meta-llama--Llama-3.1-70B"
GEMMA_27B = "google--gemma-3-27b-it"
DEEPSEEK_V3 = "deepseek-ai--DeepSeek-V3"
PHI_3 = "microsoft--Phi-3-mini-128k-instruct"
QWEN3_30B = "Qwen--Qwen3-30B-A3B"
QWEN3_NEXT = "Qwen--Qwen3-Next-80B-A3B-Instruct"

_DEPLOYMENT = {field.name for field in fields(Deployment)}


@cache
def stored(model: str) -> ModelFiles:
    """Return the files of a fixture."""
    return loads((MODELS / f"{model}.hfkv.json").read_bytes(), where=model)


def asked(model: str, gpu: str = "", engine: str = "none", **given: Any) -> Report:
    """Return the report of a model; what is given is the workload's or its deployment's."""
    hardware = {name: given.pop(name) for name in list(given) if name in _DEPLOYMENT}
    gpus = tuple(choice for text in gpu.split() for choice in parse_gpu(text))
    deployment = Deployment(gpus=gpus, **hardware)
    return analyze(stored(model), Workload(engine=engine, deployment=deployment, **given))


def fitted(model: str, gpu: str, engine: str = "none", **given: Any) -> FitReport:
    """Return how a model fits on one choice of GPU."""
    (one,) = asked(model, gpu, engine, **given).fit
    return one


def steers(text: str) -> bool:
    """Return whether a character of the text moves a cursor, breaks or turns lines, or is none.

    Unicode's own classes: controls, surrogates, line and paragraph separators, and the marks
    that set a direction.
    """
    turns = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    return any(
        category(c) in {"Cc", "Cs", "Zl", "Zp"} or bidirectional(c) in turns or c in "\u200e\u200f"
        for c in text
    )


def gpt_oss_experts() -> tuple[TensorGroup, ...]:
    """Return the experts of gpt-oss-20b as its index names them: mxfp4, 2880 wide both ways."""
    shapes = {
        "gate_up_proj_blocks": (32, 5760, 90, 16),
        "gate_up_proj_scales": (32, 5760, 90),
        "down_proj_blocks": (32, 2880, 90, 16),
        "down_proj_scales": (32, 2880, 90),
    }
    return tuple(
        TensorGroup(
            name=f"model.layers.{{}}.mlp.experts.{name}",
            dtype="U8",
            shape=shape,
            nbytes=prod(shape),
            count=24,
            layers=tuple(range(24)),
        )
        for name, shape in shapes.items()
    )
