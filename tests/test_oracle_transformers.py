"""Caches that transformers really allocated, against `--engine transformers`, to the byte.

fixtures/oracle/ holds what was measured: see its README. Expected values come from there
alone; what differs on purpose is in fixtures/known_differences.toml with its reason.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hfkv.core.architecture import Architecture, read_architecture
from hfkv.core.config import class_defaults
from hfkv.core.engines.registry import engine_named
from hfkv.core.files import ModelFiles, Target
from hfkv.core.kv import layer_bytes
from hfkv.core.precision import choose_precision
from hfkv.core.workload import Workload

FIXTURES = Path(__file__).parent.parent / "fixtures"
SPELLINGS = ("config", "config_min", "config_full", "config_input")
# The measurement gave encoder-decoders an encoder output of 40 positions, Mllama 20.
SOURCE_TOKENS = {"mllama_text_model": 20}


def lines(name: str) -> Iterator[dict[str, Any]]:
    """Yield the records of an oracle file that hold a measurement."""
    with (FIXTURES / "oracle" / name).open(encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            if record["status"] == "ok" and record.get("runs"):
                yield record


@cache
def explained() -> frozenset[tuple[str, str]]:
    """Return (case, spelling) pairs that differ on purpose."""
    table = tomllib.loads((FIXTURES / "known_differences.toml").read_text(encoding="utf-8"))
    for entry in table["transformers"]:
        assert entry["reason"], entry
        assert entry["source"], entry
    return frozenset(
        (case, spelling)
        for entry in table["transformers"]
        for case in entry["cases"]
        for spelling in entry["configs"]
    )


def read(config: dict[str, Any]) -> Architecture:
    """Read one config without tensors."""
    return read_architecture(ModelFiles(target=Target(kind="file", id="oracle"), config=config))


def predicted(config: dict[str, Any], record: dict[str, Any], tokens: int) -> list[int]:
    """Return the bytes of every layer that holds something, as hfkv sees them."""
    files = ModelFiles(target=Target(kind="file", id="oracle"), config=config)
    arch, engine = read_architecture(files), engine_named("transformers")
    precision = choose_precision(arch, files, engine)
    source = SOURCE_TOKENS.get(record["model_type"], 40)
    sizes = layer_bytes(arch, Workload(source_tokens=source), engine, precision, tokens=tokens)
    return [size for size in sizes if size]


def agrees(config: dict[str, Any], record: dict[str, Any]) -> bool:
    """Return whether every run of a record is predicted to the byte, layer by layer."""
    for run in record["runs"]:
        tokens = run["prefill"] + run.get("decode", 0)
        got = predicted(config, record, tokens)
        measured = [size for size in run["per_layer_bytes"] if size]
        # rwkv and kin keep one tensor for all layers: only the sum can be compared
        if not (got == measured if measured else sum(got) == run["total_bytes"]):
            return False
    return True


def spelled(record: dict[str, Any], spelling: str) -> dict[str, Any] | None:
    """Return a record's config in one spelling; shortened ones lost the dtype it was run in."""
    config = record.get(spelling)
    if config is None:
        return None
    shortened = spelling in ("config_min", "config_input")
    return {**config, "dtype": record["compute_dtype"]} if shortened else config


@dataclass(frozen=True)
class Tally:
    """How many spelled configs agree, how many differ for a stated reason, and which are wrong."""

    shrunk: int  # records
    full: int
    agree: int
    known: int
    wrong: tuple[tuple[str, str], ...]


@cache
def tally() -> Tally:
    """Walk both files; tests/accuracy.py tells the result to readers."""
    agree, known, wrong = 0, 0, []
    shrunk, full = list(lines("transformers_kv.jsonl")), list(lines("transformers_full.jsonl"))
    for record in shrunk:
        for spelling in SPELLINGS:
            config = spelled(record, spelling)
            if config is None:
                continue
            case = f"{record['model_type']}/{record['variant']}"
            right, reason = agrees(config, record), (case, spelling) in explained()
            if right and not reason:
                agree += 1
            elif reason and not right:
                known += 1
            else:
                wrong.append((case, spelling))
    for record in full:
        case = f"{record['model_type']}/full"
        right = agrees({**record["config"], "dtype": "bfloat16"}, record)
        reason = (case, "config") in explained()
        if right is reason:
            wrong.append((case, "full size"))
        agree += right
        known += reason
    return Tally(len(shrunk), len(full), agree, known, tuple(wrong))


def test_every_measured_cache_is_predicted_or_explained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every spelling of every measured config gives the measured bytes, or a stated reason."""
    found = tally()
    with capsys.disabled():
        told = f"{found.agree} agree, {found.known} explained, {len(found.wrong)} wrong"
        print(f"\ntransformers oracle: {told}")  # noqa: T201
    assert found.wrong == ()
    assert found.agree > 1300  # the files were really walked


def without_defaults(config: dict[str, Any], model_type: str) -> dict[str, Any]:
    """Return a config without the keys that its class would fill in alike."""
    entry = class_defaults().get(model_type, {})
    keys = entry.get("keys", {})
    kept = {key: value for key, value in config.items() if keys.get(key, ...) != value}
    heads = config.get("num_attention_heads")
    if "num_key_value_heads" not in keys and kept.get("num_key_value_heads") == heads:
        kept.pop("num_key_value_heads", None)
    hidden = config.get("hidden_size")
    if "head_dim" not in keys and heads and hidden and kept.get("head_dim") == hidden // heads:
        kept.pop("head_dim", None)
    pattern = entry.get("layer_types")
    listed = config.get("layer_types")
    if isinstance(pattern, dict) and listed:
        whole = [*pattern.get("head", []), *(pattern["repeat"] * len(listed))]
        if listed == whole[: len(listed)]:
            kept.pop("layer_types")
    return kept


def test_keys_that_equal_the_default_may_be_missing() -> None:
    """Old files omit what equals the class default: the answer stays the same."""
    shortened = 0
    for record in lines("transformers_kv.jsonl"):
        config = record["config"]
        if "hybrid_layer_pattern" in config:
            continue  # contradicts its own layer_types: see known_differences.toml
        old = without_defaults(config, record["model_type"])
        parts = class_defaults().get(record["model_type"], {}).get("parts", {})
        for name, part in parts.items():
            if isinstance(old.get(name), dict):
                inner = old[name]
                kind = inner.get("model_type", part["model_type"])
                # values that the parent passes are merged into some parts: not plain defaults
                if not part["merged"]:
                    old = {**old, name: without_defaults(inner, kind)}
        shortened += old != config
        case = f"{record['model_type']}/{record['variant']}"
        assert read(old).layers == read(config).layers, case
    assert shortened > 250


def test_a_window_keeps_one_token_less_than_it_sees() -> None:
    """A dynamic cache keeps W-1 tokens of a window of W (transformers 5.24 cache_utils.py)."""
    config = {
        "model_type": "mistral",
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "hidden_size": 8,
        "head_dim": 4,
        "sliding_window": 16,
        "dtype": "bfloat16",
    }
    record = {"model_type": "mistral"}
    # 2 (key and value) x 1 head x 4 dims x 2 bytes = 16 bytes a token
    assert predicted(config, record, 10) == [16 * 10]
    assert predicted(config, record, 100) == [16 * 15]
