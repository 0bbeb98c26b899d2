"""Which layer is which kind, for every way a config file says it."""

from __future__ import annotations

from typing import Any

import pytest

from hfkv.core.config import Config
from hfkv.core.families.registry import family_of
from hfkv.core.patterns import layer_count, layer_names
from hfkv.errors import MalformedError, UnsupportedError

SHORT = {
    "full_attention": "F",
    "sliding_attention": "S",
    "chunked_attention": "C",
    "linear_attention": "L",
    "indexed_attention": "I",
    "conv": "c",
    "hybrid": "H",
    "none": "-",
}


def letters(**config: Any) -> str:
    """Return the layer names of a config as one letter each, with its family's own rule."""
    row = family_of(config.get("model_type"))
    cfg = Config(config).spelled(row.aliases if row else {})
    return "".join(SHORT[name] for name in layer_names(cfg, row.names if row else None))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # a list in the file, in new and old vocabulary
        ({"layer_types": ["sliding_attention", "full_attention"], "num_hidden_layers": 2}, "SF"),
        ({"layers_block_type": ["mamba", "attention", "moe"]}, "LF-"),
        # Nemotron-H letters
        ({"hybrid_override_pattern": "MEM*-", "num_hidden_layers": 5}, "L-LF-"),
        # gemma-3: every 6th is full, also under its underscored spelling
        ({"model_type": "gemma3_text", "num_hidden_layers": 8}, "SSSSSFSS"),
        ({"_sliding_window_pattern": 3, "num_hidden_layers": 6}, "SSFSSF"),
        # EXAONE-4 letters repeat over the layers
        ({"sliding_window_pattern": "LLLG", "num_hidden_layers": 6}, "SSSFSS"),
        # Qwen3-Next by its interval alone
        ({"full_attention_interval": 4, "num_hidden_layers": 5}, "LLLFL"),
        # Jamba: period 8, offset 4
        (
            {"attn_layer_period": 8, "attn_layer_offset": 4, "num_hidden_layers": 9},
            "LLLLFLLLL",
        ),
        ({"full_attn_idxs": [2, 5], "num_hidden_layers": 6}, "ccFccF"),
        ({"attn_layer_indices": [1], "num_hidden_layers": 3}, "LFL"),
        # Kimi-Linear counts from 1
        (
            {"linear_attn_config": {"full_attn_layers": [4]}, "num_hidden_layers": 5},
            "LLLFL",
        ),
        ({"attn_type_list": [0, 1, 0], "num_hidden_layers": 3}, "LFL"),
        # Qwen2: windows need the switch, then start at max_window_layers
        (
            {
                "model_type": "qwen2",
                "num_hidden_layers": 4,
                "sliding_window": 8,
                "use_sliding_window": True,
                "max_window_layers": 2,
            },
            "FFSS",
        ),
        ({"model_type": "qwen2", "num_hidden_layers": 3, "sliding_window": 8}, "FFF"),
        # Llama 4: an empty list means every 4th has no RoPE and sees everything
        ({"model_type": "llama4_text", "num_hidden_layers": 5, "no_rope_layers": []}, "CCCFC"),
        # GPT-Neo's nested spelling
        (
            {
                "model_type": "gpt_neo",
                "num_layers": 4,
                "attention_types": [[["global", "local"], 2]],
            },
            "FSFS",
        ),
        # RecurrentGemma repeats its block
        ({"model_type": "recurrent_gemma", "num_hidden_layers": 5}, "LLSLL"),
        # no pattern: a window is on every layer, a chunk too
        ({"sliding_window": 4096, "num_hidden_layers": 2}, "SS"),
        ({"attention_chunk_size": 8192, "num_hidden_layers": 2}, "CC"),
        ({"num_hidden_layers": 2}, "FF"),
    ],
)
def test_patterns(config: dict[str, Any], expected: str) -> None:
    """Each spelling gives the layers its family documents."""
    assert letters(**config) == expected


def test_a_list_in_the_file_beats_a_rule_in_the_file() -> None:
    """EXAONE-4.5 states both; the list decides."""
    listed = ["full_attention"] * 4
    assert letters(layer_types=listed, sliding_window_pattern=2, num_hidden_layers=4) == "FFFF"


def test_a_rule_in_the_file_beats_the_class_pattern() -> None:
    """gemma-3 with sliding_window_pattern 2 alternates."""
    assert (
        letters(model_type="gemma3_text", num_hidden_layers=4, sliding_window_pattern=2) == "SFSF"
    )


def test_contradictions_are_not_guessed_away() -> None:
    """A list of another length than the layer count is told, not cut."""
    with pytest.raises(UnsupportedError) as error:
        letters(layer_types=["full_attention"] * 3, num_hidden_layers=4)
    assert str(error.value) == "config.json: layer_types: has 3 entries for 4 layers"


@pytest.mark.parametrize("count", [10**9, 1_001])
def test_a_billion_layers_are_refused_at_once(count: int) -> None:
    """No model has more than 1,000 layers."""
    with pytest.raises(MalformedError, match="no model has more than 1000"):
        layer_count(Config({"num_hidden_layers": count}))


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"layer_types": "full", "num_hidden_layers": 1}, "expected a list of layer types"),
        ({"layer_types": [1], "num_hidden_layers": 1}, "expected layer type names"),
        ({"hybrid_override_pattern": "M?", "num_hidden_layers": 2}, "unknown layer letter"),
        ({"hybrid_override_pattern": "M", "num_hidden_layers": 2}, "has 1 letter for 2 layers"),
        (
            {"attn_type_list": [1], "num_hidden_layers": 2},
            "does not say 0 or 1 for each of 2 layers",
        ),
    ],
)
def test_nonsense_has_a_sentence(config: dict[str, Any], error: str) -> None:
    """A pattern that cannot be read says what is wrong with it."""
    with pytest.raises((MalformedError, UnsupportedError), match=error.replace("?", "[?]")):
        letters(**config)
