"""Where a figure came from, how sure it is, and what a person should know about it."""

from __future__ import annotations

from enum import IntEnum

from hfkv.core.record import dataclass

__all__ = ["Confidence", "Finding", "Reading", "told_apart"]


class Confidence(IntEnum):
    """The ladder, worst to best."""

    UNKNOWN = 0
    DOUBTFUL = 1
    INFERRED = 2
    DECLARED = 3
    CONFIRMED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One value and its path: `field` = `value`, because of `source`.

    `source` is the dotted key (`config.json: text_config.head_dim`), a default
    (`default of gemma3_text`) or a rule (`hidden_size / num_attention_heads`).
    """

    field: str
    value: object
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A coded warning: what is true of this model, and what to do about it."""

    code: str
    message: str
    hint: str | None = None


def told_apart(
    doubts: tuple[str, ...], confidence: Confidence
) -> tuple[tuple[str, ...], str | None]:
    """Return the doubts about an architecture, and what to do about an unknown one.

    That is the last of several.
    """
    if confidence is Confidence.UNKNOWN and len(doubts) > 1:
        return doubts[:-1], doubts[-1]
    return doubts, None
