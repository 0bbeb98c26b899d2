"""The examples run as they are written, against a Hub on this machine."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import dask
import pytest
from hub_models import GATED, ONE
from hub_server import HubServer, weights

EXAMPLES = Path(__file__).parent.parent / "examples"
LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 128,
    "torch_dtype": "bfloat16",
}
ROWS = [
    # 2 layers x 2 (K and V) x 2 heads x 16 wide x 2 bytes x 32,768 tokens
    {"id": "org/a", "weights_bytes": 8, "cache_bytes": 8_388_608},
    {"id": "org/gated", "weights_bytes": len(ONE), "cache_bytes": None},
    {"id": "org/none", "error": "not-found"},
]


@pytest.fixture
def example(hub_server: HubServer) -> ModuleType:
    """Put three models on the Hub, one of them behind a gate; return the example."""
    model = {"config.json": LLAMA, "model.safetensors": weights(("w", "BF16", (2, 2), 8))}
    hub_server.add("org/a", model)
    hub_server.add("org/gated", GATED, gated="auto")
    spec = importlib.util.spec_from_file_location("dask_map", EXAMPLES / "dask_map.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_partition(example: ModuleType) -> None:
    """What a worker does with its share: a row for every model, whatever happens to it."""
    rows = sorted(example.size(["org/none", "org/a", "org/gated"]), key=lambda one: one["id"])
    assert rows == ROWS


def test_with_dask(example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it, in partitions of two, with the scheduler of a laptop."""
    monkeypatch.setattr(example, "A_PARTITION", 2)
    listed = tmp_path / "models.txt"
    listed.write_text("org/none\norg/a\norg/gated\n")
    with dask.config.set(scheduler="threads"):
        example.main(str(listed), str(tmp_path / "rows-*.jsonl"))
    lines = [line for path in tmp_path.glob("rows-*") for line in path.read_text().splitlines()]
    assert sorted((json.loads(line) for line in lines), key=lambda one: one["id"]) == ROWS
    assert len(list(tmp_path.glob("rows-*"))) == 2
