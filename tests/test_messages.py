"""Messages name the file and the key that the user wrote, never a name of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hfkv.cli import main

LLAMA = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"model_type": "llama", **LLAMA, "max_position_embeddings": -5},
            "max_position_embeddings: -5 is negative, and this is a count",
        ),
        (
            {"model_type": "gpt2", "n_layer": 2, "n_positions": "many"},
            'n_positions: expected a whole number, got "many"',
        ),
        (
            {"model_type": "mixtral", "num_local_experts": "eight", "num_hidden_layers": 2},
            'num_local_experts: expected a whole number, got "eight"',
        ),
        (
            {"model_type": "gemma3", "text_config": {"num_hidden_layers": "x"}},
            'text_config.num_hidden_layers: expected a whole number, got "x"',
        ),
        ({"model_type": "llama", "torch_dtype": 7}, "torch_dtype: expected a dtype name, got 7"),
        (
            {"model_type": "llama", "quantization_config": 5},
            "quantization_config: expected an object, got a number",
        ),
        (
            {"model_type": "new", **LLAMA, "num_kv_heads": 0},
            "num_kv_heads: 0 is not a size",
        ),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
@pytest.mark.parametrize("as_option", [False, True])
def test_a_wrong_value_is_told_by_file_and_key(
    tmp_path: Path,
    config: dict[str, Any],
    message: str,
    capsys: pytest.CaptureFixture[str],
    *,
    as_option: bool,
) -> None:
    """Of a lone file the name; of --config FILE the path as it was written."""
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(config))
    words, name = [str(path)], "mine.json"
    if as_option:
        model = Path(__file__).parent.parent / "fixtures/models/meta-llama--Llama-3.1-8B.hfkv.json"
        words, name = [str(model), "--config", str(path)], str(path)
    assert main(["inspect", *words]) == 4
    first = capsys.readouterr().err.splitlines()[0]
    assert first == f"hfkv: error: {name}: {message}"
