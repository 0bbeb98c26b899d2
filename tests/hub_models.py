"""Repositories that several test files put on the test Hub."""

from __future__ import annotations

from hub_server import Sparse, weights

from hfkv.core.files import ModelFiles

CONFIG = {"model_type": "llama", "num_hidden_layers": 2}


ONE = weights(("model.layers.0.w", "BF16", (4, 8), 64), ("model.layers.1.w", "BF16", (4, 8), 64))


FIRST = weights(("model.layers.0.w", "BF16", (4, 8), 64))


SECOND = weights(("model.layers.1.w", "BF16", (4, 8), 64), ("lm_head.weight", "F32", (2,), 8))


SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


INDEX = {
    "metadata": {"total_size": 136},
    "weight_map": {
        "model.layers.0.w": SHARDS[0],
        "model.layers.1.w": SHARDS[1],
        "lm_head.weight": SHARDS[1],
    },
}


SHARDED = {
    "config.json": CONFIG,
    SHARDS[0]: FIRST,
    SHARDS[1]: SECOND,
    "model.safetensors.index.json": INDEX,
}


def codes(files: ModelFiles) -> list[str]:
    """Return what was odd."""
    return [problem.code for problem in files.problems]


def sized_header(length: int) -> Sparse:
    """Return a file whose header JSON is exactly `length` bytes long."""
    plain = weights(("model.layers.0.w", "BF16", (4, 8), 64))
    return weights(("model.layers.0.w", "BF16", (4, 8), 64), pad=length - (len(plain.first) - 8))


GATED = {"config.json": CONFIG, "model.safetensors": ONE}
