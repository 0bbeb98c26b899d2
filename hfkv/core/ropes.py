"""The lengths that rotary positions were made for, and stretched to, as engines read them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from hfkv.core.config import Config
from hfkv.core.record import dataclass

__all__ = [
    "Stretch",
    "long_rope_start",
    "positive_number",
    "rope_kind",
    "ropes_of",
    "stretch_of",
]

_START = "original_max_position_embeddings"
_FULL = "full_attention"
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


def ropes_of(text: Config) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the keys of each rope; newer files have one for each kind of layer.

    Such a name has the kind behind a dot, as in `rope_parameters.full_attention`.
    Where both names are stated, the older `rope_scaling` is the rope; beside ropes by kind of
    layer it is that of full attention. A length outside a single rope goes before its own.
    Source: transformers 5, modeling_rope_utils.py, `convert_rope_params_to_dict` and
    `standardize_rope_params`; configuration_gemma3.py and configuration_olmo3.py there; vLLM,
    transformers_utils/config.py, `patch_rope_parameters`.
    """
    older, newer = (_table(text, name) for name in ("rope_scaling", "rope_parameters"))
    kinds = _by_kind(newer)
    if _FULL in kinds and not _by_kind(older):
        kinds[_FULL] |= older
        older = {}
    else:
        kinds = _by_kind(older or newer)
    name = "rope_scaling" if older else "rope_parameters"
    if kinds:
        yield from ((f"{name}.{kind}", part) for kind, part in kinds.items())
    elif older or newer:
        start = text.given(_START)
        yield name, (older or newer) | ({_START: start} if positive_number(start) else {})


def _table(text: Config, name: str) -> dict[str, Any]:
    value = text.given(name)
    return value if isinstance(value, dict) else {}


def _by_kind(rope: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {kind: dict(part) for kind, part in rope.items() if isinstance(part, dict)}


def rope_kind(rope: dict[str, Any]) -> object:
    """Return what kind of rope it is, by the newer name of the key or the older."""
    return rope.get("rope_type") or rope.get("type") or "default"


def long_rope_start(text: Config, maximum: int | None) -> int | None:
    """Return the length that LongRoPE stretches, at most the maximum; None for other ropes."""
    for name, value in ropes_of(text):
        if rope_kind(value) in _LONG:
            rope = Config(value, path=f"{text.path}{name}.", log=text.log)
            found = text.positive(_START) or rope.positive(_START)
            return min(found, maximum or found) if found else None
    return None


def stretch_of(text: Config, maximum: int | None) -> Stretch:
    """Return what factors make of the maximum; Gemma-3 states it stretched already.

    Source: vLLM 0.28 and 0.32, config/model.py, `_get_and_verify_max_len`.
    """
    if maximum is None or (text.model_type or "").startswith("gemma3"):
        return Stretch()
    found = Stretch()
    for _, rope in ropes_of(text):
        kind, factor = rope_kind(rope), positive_number(rope.get("factor"))
        began = positive_number(rope.get(_START))
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
