"""Which layer is which kind: listed, every Nth, by letters, by indexes, by class default.

A reader takes (Config, number of layers) and returns one name per layer in transformers'
closed vocabulary, or None when the config holds nothing it understands. `layer_names` asks
them in order: a list in the file beats a rule in the file beats the class default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hfkv.core.config import Config, class_defaults
from hfkv.core.counts import counted
from hfkv.core.kinds import window
from hfkv.errors import MalformedError, UnsupportedError

__all__ = [
    "CHUNKED",
    "CONV",
    "FULL",
    "HYBRID",
    "INDEXED",
    "LINEAR",
    "MAX_LAYERS",
    "NONE",
    "SLIDING",
    "class_pattern",
    "every",
    "from_indexes",
    "layer_count",
    "layer_names",
    "normalized",
]

FULL = "full_attention"
SLIDING = "sliding_attention"
CHUNKED = "chunked_attention"
LINEAR = "linear_attention"
INDEXED = "indexed_attention"
CONV = "conv"
HYBRID = "hybrid"
NONE = "none"

# The deepest public model has about 200 layers; this refuses nonsense before it costs time.
MAX_LAYERS = 1_000

# Older and remote-code spellings. Source: transformers 5.24 configuration_utils.py.
_NAMES = {
    "attention": FULL,
    "full": FULL,
    "mamba": LINEAR,
    "recurrent": LINEAR,
    "linear": LINEAR,
    "deepseek_sparse_attention": INDEXED,
    "qwen_sparse_attention": INDEXED,
    "sparse_attention": INDEXED,
    "short_conv": CONV,
    "moe": NONE,
    "mlp": NONE,
    "no_op": NONE,
}

# Nemotron-H's alphabet; "-" and "E" are MLP and MoE blocks.
_LETTERS = {"M": LINEAR, "*": FULL, "-": NONE, "E": NONE}

Reader = Callable[[Config, int], list[str] | None]


def normalized(name: Any, *, where: str) -> str:
    """Return a layer type in the closed vocabulary; raises MalformedError for non-strings."""
    if not isinstance(name, str):
        raise MalformedError("expected layer type names", where=where)
    return _NAMES.get(name, name)


def layer_count(cfg: Config) -> int:
    """Return the number of layers, from the key or from the length of a per-layer list.

    Raises MalformedError above MAX_LAYERS, UnsupportedError when nothing says it.
    """
    stated = cfg.given("num_hidden_layers")
    if stated is None:
        found = cfg.given("layer_types") or cfg.given("hybrid_override_pattern")
        if found is None and "num_hidden_layers" not in cfg.defaults:
            # nemotron_h's class counts its default list and has no other number
            found = class_defaults().get(cfg.model_type or "", {}).get("layer_types")
        if isinstance(found, (list, str)):
            cfg.note("num_hidden_layers", len(found), "length of the layer list")
            return _believable(cfg, len(found))
    return _believable(cfg, cfg.need("num_hidden_layers"))


def _believable(cfg: Config, count: int) -> int:
    if not 0 < count <= MAX_LAYERS:
        raise MalformedError(
            f"{counted(count, 'layer')}; no model has more than {MAX_LAYERS}",
            where=cfg.where("num_hidden_layers"),
        )
    return count


def every(step: int, *, count: int, other: str = SLIDING, offset: int | None = None) -> list[str]:
    """Return `count` names where every `step`-th is full (by default the last of each)."""
    at = step - 1 if offset is None else offset
    return [FULL if step and i % step == at else other for i in range(count)]


def from_indexes(
    indexes: list[int],
    *,
    count: int,
    where: str,
    special: str = FULL,
    other: str = LINEAR,
) -> list[str]:
    """Return `count` names where the listed (0-based) layers are special.

    Raises UnsupportedError for an index that no layer has.
    """
    chosen = set(indexes)
    if chosen and not 0 <= min(chosen) <= max(chosen) < count:
        raise UnsupportedError(
            f"lists layer {max(chosen)} of {count}", where=where, code="contradiction"
        )
    return [special if i in chosen else other for i in range(count)]


def listed(cfg: Config, count: int) -> list[str] | None:
    """Read `layer_types` / `layers_block_type`."""
    values = cfg.given("layer_types")
    if values is None:
        return None
    where = cfg.where("layer_types")
    if not isinstance(values, list):
        raise MalformedError("expected a list of layer types", where=where)
    padded = count + (cfg.count("num_mtp_layers") or 0)
    if len(values) == padded:  # Step-3.5 lists its next-token layers too
        values = values[:count]
    if len(values) != count:
        raise UnsupportedError(
            f"has {counted(len(values), 'entry')} for {counted(count, 'layer')}",
            where=where,
            hint="one of the two is wrong; supply a corrected config with --config FILE",
            code="contradiction",
        )
    return [normalized(value, where=where) for value in values]


def by_letters(cfg: Config, count: int) -> list[str] | None:
    """Read Nemotron-H's `hybrid_override_pattern` ("MEM*E…")."""
    letters = cfg.text("hybrid_override_pattern")
    if letters is None:
        return None
    where = cfg.where("hybrid_override_pattern")
    unknown = sorted(set(letters) - set(_LETTERS))
    if unknown:
        raise UnsupportedError(f"unknown layer letter '{unknown[0]}'", where=where)
    if len(letters) != count:
        raise UnsupportedError(
            f"has {counted(len(letters), 'letter')} for {counted(count, 'layer')}",
            where=where,
            code="contradiction",
        )
    return [_LETTERS[letter] for letter in letters]


def by_window_pattern(cfg: Config, count: int) -> list[str] | None:
    """Read `sliding_window_pattern`: every Nth is full (gemma3, cohere2), or "LLLG" letters."""
    value = cfg.given("sliding_window_pattern")
    if value is None:
        return None
    if isinstance(value, str) and value and set(value) <= {"L", "G"}:
        return [SLIDING if value[i % len(value)] == "L" else FULL for i in range(count)]
    step = cfg.positive("sliding_window_pattern")
    return None if step is None else every(step, count=count)


def by_interval(cfg: Config, count: int) -> list[str] | None:
    """Read `full_attention_interval`: every Nth is full, the others linear (Qwen3-Next)."""
    step = cfg.given("full_attention_interval") and cfg.positive("full_attention_interval")
    return every(step, count=count, other=LINEAR) if step else None


def by_period(cfg: Config, count: int) -> list[str] | None:
    """Read `attn_layer_period` and `attn_layer_offset` (Jamba)."""
    stated = cfg.given("attn_layer_period"), cfg.given("attn_layer_offset")
    step = cfg.positive("attn_layer_period")
    if step is None or stated == (None, None):
        return None
    offset = cfg.count("attn_layer_offset") or 0
    return every(step, count=count, other=LINEAR, offset=offset % step)


def by_group(cfg: Config, count: int) -> list[str] | None:
    """Read `layer_group_size`: the last of each group is full (Bailing hybrids)."""
    step = cfg.given("layer_group_size") and cfg.positive("layer_group_size")
    return every(step, count=count, other=LINEAR) if step else None


def by_type_codes(cfg: Config, count: int) -> list[str] | None:
    """Read MiniMax's `attn_type_list`: 0 linear, 1 full."""
    codes = cfg.counts("attn_type_list")
    if codes is None:
        return None
    if len(codes) < count or not set(codes) <= {0, 1}:
        raise UnsupportedError(
            f"does not say 0 or 1 for each of {counted(count, 'layer')}",
            where=cfg.where("attn_type_list"),
        )
    return [FULL if code else LINEAR for code in codes[:count]]


def by_full_indexes(cfg: Config, count: int) -> list[str] | None:
    """Read `full_attn_idxs` (LFM2): the listed layers are attention, the others convolutions."""
    indexes, where = cfg.counts("full_attn_idxs"), cfg.where("full_attn_idxs")
    return None if indexes is None else from_indexes(indexes, count=count, where=where, other=CONV)


def by_attention_indexes(cfg: Config, count: int) -> list[str] | None:
    """Read `attn_layer_indices` (Bamba): the listed layers are attention, the others Mamba."""
    indexes, where = cfg.counts("attn_layer_indices"), cfg.where("attn_layer_indices")
    return None if indexes is None else from_indexes(indexes, count=count, where=where)


def by_linear_config(cfg: Config, count: int) -> list[str] | None:
    """Read `linear_attn_config.full_attn_layers` (Kimi-Linear), which counts from 1."""
    part = cfg.part("linear_attn_config")
    indexes = part.counts("full_attn_layers") if part else None
    if indexes is None:
        return None
    where = cfg.where("linear_attn_config.full_attn_layers")
    return from_indexes([i - 1 for i in indexes], count=count, where=where)


_IN_FILE: tuple[Reader, ...] = (
    listed,
    by_letters,
    by_full_indexes,
    by_attention_indexes,
    by_linear_config,
    by_type_codes,
)
_BY_RULE: tuple[Reader, ...] = (by_window_pattern, by_interval, by_period, by_group)


def class_pattern(cfg: Config, count: int) -> list[str] | None:
    """Return what the model_type's own class fills in when the file lists nothing."""
    pattern: Any = class_defaults().get(cfg.model_type or "", {}).get("layer_types")
    if pattern is None:
        return None
    if isinstance(pattern, dict):
        head, repeat = pattern.get("head", []), pattern["repeat"]
        pattern = (head + repeat * (count // len(repeat) + 1))[:count]
    if len(pattern) != count:
        raise UnsupportedError(
            f"nothing states which of the {counted(count, 'layer')} have attention",
            where=cfg.where("layer_types"),
            code="missing-key",
        )
    return [normalized(name, where="class default") for name in pattern]


def by_window(cfg: Config, count: int) -> list[str]:
    """Return the generic reading: a window is on all layers, else a chunk, else neither.

    Source: transformers 5.24 cache_utils.py, DynamicCache without `layer_types`.
    """
    rest = CHUNKED if cfg.positive("attention_chunk_size") else FULL
    return [SLIDING if window(cfg.at(i)) else rest for i in range(count)]


def layer_names(cfg: Config, own: Reader | None = None) -> list[str]:
    """Return one name per layer: listed in the file, by the family's rule, by a generic rule."""
    count = layer_count(cfg)
    mine: tuple[Reader, ...] = (own,) if own else ()
    for reader in (*_IN_FILE, *mine, *_BY_RULE, class_pattern):
        names = reader(cfg, count)
        if names is not None:
            return names
    return by_window(cfg, count)
