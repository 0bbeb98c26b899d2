"""Config: precedence, spellings, and sentences for values that make no sense."""

from __future__ import annotations

from typing import Any

import pytest

from hfkv.core.config import Config, as_count
from hfkv.errors import MalformedError, UnsupportedError


def test_a_value_in_the_file_beats_the_class_default() -> None:
    """gemma3_text's class says 256; the file's 128 wins and is what the reading names."""
    cfg = Config({"model_type": "gemma3_text", "head_dim": 128})
    assert cfg.count("head_dim") == 128
    assert cfg.log.readings["head_dim"].source == "config.json: head_dim"


def test_the_class_default_fills_what_the_file_omits() -> None:
    """gemma-3-12b's file omits head_dim; its class fills in 256 (transformers 5.24)."""
    cfg = Config({"model_type": "gemma3_text"})
    assert cfg.count("head_dim") == 256
    assert cfg.log.readings["head_dim"].source == "default of gemma3_text"


def test_null_in_the_file_switches_the_class_default_off() -> None:
    """Mistral-7B-v0.2 writes sliding_window: null; the class default 4096 must not return."""
    assert Config({"model_type": "mistral"}).count("sliding_window") == 4096
    assert Config({"model_type": "mistral", "sliding_window": None}).count("sliding_window") is None


def test_a_per_layer_override_beats_everything() -> None:
    """Transformers 5 pads the layer numbers of per_layer_config with zeros."""
    cfg = Config(
        {
            "model_type": "gemma4_text",
            "head_dim": 256,
            "per_layer_config": {"05": {"head_dim": 512}},
        }
    )
    assert cfg.at(5).count("head_dim") == 512
    assert cfg.at(4).count("head_dim") == 256


def test_a_list_gives_each_layer_its_entry() -> None:
    """OpenELM lists KV heads per layer."""
    cfg = Config({"num_kv_heads": [3, 4]})
    assert [cfg.at(i).count("num_key_value_heads") for i in (0, 1)] == [3, 4]
    with pytest.raises(MalformedError) as error:
        cfg.at(2).count("num_key_value_heads")
    assert str(error.value) == ("config.json: num_kv_heads: has 2 entries, and layer 2 needs one")


@pytest.mark.parametrize(
    ("model_type", "key", "field", "value"),
    [
        ("gpt2", "n_layer", "num_hidden_layers", 12),
        ("gpt2", "n_embd", "hidden_size", 768),
        ("t5", "d_kv", "head_dim", 64),
        ("falcon", "num_kv_heads", "num_key_value_heads", 8),
        (None, "multi_query_group_num", "num_key_value_heads", 2),
        (None, "max_sequence_length", "max_context", 2048),
    ],
)
def test_other_spellings_are_found(
    model_type: str | None, key: str, field: str, value: int
) -> None:
    """A field is found under the name its family uses."""
    assert Config({"model_type": model_type, key: value}).count(field) == value


@pytest.mark.parametrize(("value", "count"), [(32, 32), (32.0, 32), (0, 0)])
def test_integral_numbers_are_counts(value: object, count: int) -> None:
    """JSON writers that turn 32 into 32.0 are understood."""
    assert as_count(value, where="x") == count


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (-3, "n: -3 is negative, and this is a count"),
        (1.5, "n: expected a whole number, got 1.5"),
        (True, "n: expected a whole number, got true"),
        ("8", 'n: expected a whole number, got "8"'),
        ([8], "n: expected a whole number, got [8]"),
        (float("nan"), "n: expected a whole number, got nan"),
        (10**400, "n: a number above 2^53 is too large to be true"),
        (2**53 + 1, "n: a number above 2^53 is too large to be true"),
        ("x" * 100, 'n: expected a whole number, got "' + "x" * 56 + "..."),
    ],
)
def test_anything_else_is_refused_by_a_sentence(value: object, sentence: str) -> None:
    """A value that is no count is refused, naming it briefly."""
    with pytest.raises(MalformedError) as error:
        as_count(value, where="n")
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("getter", "value", "sentence"),
    [
        ("flag", "yes", 'config.json: k: expected true or false, got "yes"'),
        ("text", 5, "config.json: k: expected a string, got 5"),
        ("items", {}, "config.json: k: expected a list, got {}"),
        ("counts", [1, "a"], 'config.json: k[1]: expected a whole number, got "a"'),
        ("part", [], "config.json: k: expected an object, got []"),
    ],
)
def test_wrong_types_name_their_key(getter: str, value: Any, sentence: str) -> None:
    """Every typed getter refuses another type with the dotted path."""
    with pytest.raises(MalformedError) as error:
        getattr(Config({"k": value}), getter)("k")
    assert str(error.value) == sentence


def test_nested_paths_are_in_the_message() -> None:
    """A key of a nested part is named with its path."""
    part = Config({"text_config": {"head_dim": -1}}).part("text_config")
    assert part is not None
    with pytest.raises(MalformedError) as error:
        part.count("head_dim")
    assert str(error.value) == (
        "config.json: text_config.head_dim: -1 is negative, and this is a count"
    )


def test_a_missing_essential_says_what_to_do() -> None:
    """What cannot be read honestly is told with the key and a way out."""
    with pytest.raises(UnsupportedError) as error:
        Config({}).need("num_hidden_layers")
    assert error.value.message == ("config.json: num_hidden_layers: the config does not state it")
    assert error.value.hint == "supply a complete config with --config FILE"


def test_zero_and_one_are_flags() -> None:
    """Old files write 0 and 1 for false and true."""
    assert Config({"k": 1}).flag("k") is True
    assert Config({"k": 0}).flag("k") is False
    assert Config({}).flag("k") is None
