"""The tables of rotary positions that vLLM builds while it loads a model, and counts as loaded.

"Model loading took 14.99 GiB" of Llama-3.1-8B is 14.96 of weights and 131,072 positions x 128.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from hfkv.core.architecture import Architecture
from hfkv.core.config import Config
from hfkv.core.descend import decoder_part
from hfkv.core.ropes import positive_number, rope_kind, ropes_of
from hfkv.core.stores import Grows

__all__ = ["position_elements"]

_VIDEO = 4  # mrope: "we enlarge max_position_embeddings to 4 times" for long videos


def position_elements(config: dict[str, Any], architecture: Architecture) -> int:
    """Return the elements of all tables: positions x rotated dims, a sine or cosine each.

    Every rank has all of them, in the compute dtype. Kinds of rope that are not known, and
    models that state none, count nothing.
    Source: vLLM 0.19, model_executor/layers/rotary_embedding: __init__.py (`get_rope`),
    base.py, mrope.py, linear_scaling_rope.py, yarn_scaling_rope.py,
    phi3_long_rope_scaled_rope.py, gemma4_rope.py; models/gemma3.py for a local rope beside the
    global one.
    """
    text = decoder_part(Config(config))
    positions = architecture.max_context
    if positions is None:
        return 0
    return sum(
        math.ceil(_positions(rope, positions, text)) * _rotated(rope, width, text)
        for kind, rope in _tables(text)
        if (width := _width(kind, text, architecture))
    )


def _tables(text: Config) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the parameters of each rope there is a table of, and the kind of layer it is for."""
    stated = [(name.partition(".")[2], rope) for name, rope in ropes_of(text)]
    yield from stated
    if not stated and text.given("rope_theta") is not None:
        yield "", {}
    if text.given("rope_local_base_freq") is not None and len(stated) < 2:  # not by kind of layer
        yield "", {}


def _width(kind: str, text: Config, architecture: Architecture) -> int | None:
    """Return the width of a head that is rotated, None where layers of a kind have several."""
    latent = text.count("qk_rope_head_dim")
    if latent:
        return latent
    own = {
        store.key
        for layer in architecture.layers
        for store in layer.stores
        if layer.kind == kind and isinstance(store, Grows)
    }
    return own.pop() if len(own) == 1 else architecture.head_dim


def _rotated(rope: dict[str, Any], width: int, text: Config) -> int:
    """Return the dims of a table; a proportional rope has them all, and turns some by nothing."""
    return width if rope_kind(rope) == "proportional" else int(width * _partial(rope, text))


def _positions(rope: dict[str, Any], positions: int, text: Config) -> Fraction:
    """Return how many positions a table has."""
    kind = rope_kind(rope)
    trained = positive_number(rope.get("original_max_position_embeddings"))
    trained = trained or positive_number(text.given("original_max_position_embeddings"))
    factor = positive_number(rope.get("factor"))
    if kind in ("default", "mrope", "llama3", "proportional"):
        found = Fraction(positions)
    elif kind in ("linear", "dynamic") and factor:
        found = positions * factor
    elif kind in ("yarn", "deepseek_yarn") and factor and trained:
        found = trained * factor
    elif kind in ("longrope", "su") and trained:  # short and long factors, one after the other
        found = trained + positions
    else:
        return Fraction(0)
    return found * _VIDEO if "mrope_section" in rope else found


def _partial(rope: dict[str, Any], text: Config) -> Fraction:
    share = positive_number(rope.get("partial_rotary_factor"))
    share = share or positive_number(text.given("partial_rotary_factor"))
    return share if share and share <= 1 else Fraction(1)
