"""Fixtures and made-up tensors, and what the tensors say about a config."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from hfkv.core.architecture import Architecture, read_architecture
from hfkv.core.evidence import Evidence, witness
from hfkv.core.files import ModelFiles, Target, TensorGroup
from hfkv.core.headers import parse_shard
from hfkv.core.snapshots import loads

FOLDER = Path(__file__).parent.parent / "fixtures" / "models"
QUANTIZED = FOLDER.parent / "quantized"
NAMES = sorted(path.name.removesuffix(".hfkv.json") for path in FOLDER.glob("*.hfkv.json"))
LLAMA = "meta-llama--Llama-3.1-8B"


@cache
def load(name: str) -> ModelFiles:
    """Read one snapshot."""
    path = FOLDER / f"{name}.hfkv.json"
    return loads(path.read_bytes(), where=path.name)


def verdict(files: ModelFiles) -> tuple[Architecture, Evidence]:
    """Read an architecture and let the tensors speak."""
    return witness(read_architecture(files), files)


def quantized(name: str) -> ModelFiles:
    """Read a quantized fixture (its header only)."""
    data = (QUANTIZED / name / "model.safetensors.header").read_bytes()
    config = json.loads((QUANTIZED / name / "config.json").read_text(encoding="utf-8"))
    shard = parse_shard(data, file_size=None, path="model.safetensors")
    target = Target(kind="folder", id=name)
    return ModelFiles(target=target, config=config, tensors=shard.groups)


Row = tuple[str, tuple[int, ...], tuple[int, ...]]


def files_of(config: dict[str, Any] | None, *rows: Row) -> ModelFiles:
    """Make files from (name, shape, layers)."""
    tensors = tuple(
        TensorGroup(name=name, dtype="BF16", shape=shape, nbytes=2, layers=layers)
        for name, shape, layers in rows
    )
    return ModelFiles(target=Target(kind="file", id="x"), config=config, tensors=tensors)


def made_up(config: dict[str, Any], *rows: Row) -> tuple[Architecture, Evidence]:
    """Let made-up tensors testify about a config."""
    return verdict(files_of(config, *rows))
