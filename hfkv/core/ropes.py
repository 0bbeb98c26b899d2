"""The lengths that rotary positions were made for, and stretched to, as engines read them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from hfkv.core.config import Config
from hfkv.core.record import dataclass

__all__ = ["Stretch", "long_rope_start", "positive_number", "stretch_of"]

_LONG = ("longrope", "su")
_YARN = ("yarn", "deepseek_yarn")
_SCALED_ALREADY = (*_LONG, *_YARN, "llama3", "deepseek_llama_scaling")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The tokens that a factor makes of the maximum, and YaRN of the length it began with.

    None where the file has no such rope.
    """

    tokens: int | None = None
    yarn_tokens: int | None = None


def _ropes(text: Config) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the keys of each rope; newer files have one for each kind of layer."""
    for name in ("rope_scaling", "rope_parameters"):
        value = text.given(name)
        if isinstance(value, dict):
            nested = [part for part in value.values() if isinstance(part, dict)]
            yield from ((name, part) for part in nested or [value])


def long_rope_start(text: Config, maximum: int | None) -> int | None:
    """Return the length that LongRoPE stretches, at most the maximum; None for other ropes."""
    for name, value in _ropes(text):
        rope = Config(value, path=f"{text.path}{name}.", log=text.log)
        if any(rope.given(key) in _LONG for key in ("rope_type", "type")):
            key = "original_max_position_embeddings"
            found = text.positive(key) or rope.positive(key)
            return min(found, maximum or found) if found else None
    return None


def stretch_of(text: Config, maximum: int | None) -> Stretch:
    """Return what factors make of the maximum; Gemma-3 states it stretched already.

    Source: vLLM 0.28 and 0.32, config/model.py, `_get_and_verify_max_len`.
    """
    if maximum is None or (text.model_type or "").startswith("gemma3"):
        return Stretch()
    found = Stretch()
    for _, rope in _ropes(text):
        kind = rope.get("rope_type") or rope.get("type")
        factor = positive_number(rope.get("factor"))
        began = positive_number(rope.get("original_max_position_embeddings"))
        if kind in _YARN and factor and began:
            found = Stretch(tokens=found.tokens, yarn_tokens=int(began * factor))
        elif kind not in _SCALED_ALREADY and factor:
            found = Stretch(tokens=int(maximum * factor), yarn_tokens=found.yarn_tokens)
    return found


def positive_number(value: object) -> Fraction | None:
    """Return a number that positions can be counted with, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return Fraction(value) if 0 < value < 2**40 else None
