"""Numbers that came from outside: whole, not negative, believable, or told in a sentence."""

from __future__ import annotations

import json

from hfkv.errors import MalformedError

__all__ = ["as_count", "counted", "kind_of", "short"]

_LARGEST = 2**53  # beyond this a JSON number is not an exact integer everywhere


def as_count(value: object, *, where: str) -> int:
    """Return a JSON number as a whole, non-negative int; integral floats count.

    Raises MalformedError for anything else.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise MalformedError(f"expected a whole number, got {short(value)}", where=where)
    if isinstance(value, float):
        if not value.is_integer():
            raise MalformedError(f"expected a whole number, got {value}", where=where)
        value = int(value)
    if value < 0:
        raise MalformedError(f"{short(value)} is negative, and this is a count", where=where)
    if value > _LARGEST:
        raise MalformedError(f"{short(value)} is too large to be true", where=where)
    return value


def counted(number: int, noun: str) -> str:
    """Return a number of things: `1 layer`, `3 layers`, `1 entry`, `2,048 entries`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("ry") else f"{number:,} {noun}s"


def short(value: object) -> str:
    """Return a value for a message, bounded (a hostile number may have a million digits)."""
    if isinstance(value, int) and abs(value) > _LARGEST:
        return "a number above 2^53"
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def kind_of(value: object) -> str:
    """Return what a JSON value is, in words that are safe in a message."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and not isinstance(value, bool):
        return "a number"
    return short(value)
