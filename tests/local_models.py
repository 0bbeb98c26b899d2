"""Checkpoints that tests write to a folder of their own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from hfkv.core.files import ModelFiles

CONFIG = {"model_type": "llama", "num_hidden_layers": 2}


def checkpoint(folder: Path, shards: int = 1) -> Path:
    """Write a checkpoint with one layer in each file, and an index when there are several."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    names = ["model.safetensors"]
    if shards > 1:
        names = [f"model-{i:05}-of-{shards:05}.safetensors" for i in range(1, shards + 1)]
        weight_map = {f"model.layers.{i}.w": name for i, name in enumerate(names)}
        index = {"metadata": {"total_size": 48 * shards}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for i, name in enumerate(names):
        save_file({f"model.layers.{i}.w": np.zeros((4, 6), np.float16)}, folder / name)
    return folder


def codes(files: ModelFiles) -> list[str]:
    """Return what was odd."""
    return [problem.code for problem in files.problems]
