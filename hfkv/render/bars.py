"""Bars: parts of a whole as coloured cells that also differ without colour."""

from __future__ import annotations

from itertools import pairwise

from rich.text import Text

from hfkv.core.record import dataclass

__all__ = ["ASCII", "EMPTY", "FREE", "KV", "LEFT", "OVERHEAD", "WEIGHTS", "Part", "bar", "cells"]

# One glyph and one colour a part: the shades keep their meaning in black and white.
WEIGHTS = ("█", "blue")
KV = ("▓", "magenta")
OVERHEAD = ("▒", "yellow")
FREE = ("░", "green")
LEFT = ("╌", "bright_black")
EMPTY = (" ", "default")

# What a terminal without UTF-8 is shown instead, one character for one.
ASCII = str.maketrans(
    {
        "█": "#",
        "▓": "=",
        "▒": ":",
        "░": ".",
        "╌": "-",
        "·": "*",
        "▲": "^",
        "✔": "+",
        "✘": "x",
        "●": "*",
        "★": "*",
        "≈": "~",
        "→": ">",
        "←": "<",
        "×": "x",
        "÷": "/",
        "−": "-",
        "–": "-",
        "—": "-",
        "…": "~",
        "’": "'",
        "≥": ">",
        "≤": "<",
        "⌈": "(",
        "⌉": ")",
        "⌊": "(",
        "⌋": ")",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One stretch of a bar: what it is called, how many bytes, and how it is drawn."""

    name: str
    bytes: int
    look: tuple[str, str]
    note: str = ""


def cells(sizes: tuple[int, ...], width: int) -> list[int]:
    """Return how many of `width` cells each size gets; they add up, and only a 0 gets none.

    Each boundary is rounded on its own, so an error never adds up along the bar.
    """
    whole = sum(sizes)
    if whole <= 0 or width <= 0:
        return [0] * len(sizes)
    ends, seen = [0], 0
    for size in sizes:
        seen += size
        ends.append((2 * seen * width + whole) // (2 * whole))
    given = [end - start for start, end in pairwise(ends)]
    for index, size in enumerate(sizes):
        if size > 0 and given[index] == 0 and max(given) > 1:
            given[given.index(max(given))] -= 1
            given[index] = 1
    return given


def bar(parts: tuple[Part, ...], width: int) -> Text:
    """Return the parts as one line of `width` cells."""
    text = Text(no_wrap=True)
    for part, share in zip(parts, cells(tuple(p.bytes for p in parts), width), strict=True):
        glyph, colour = part.look
        text.append(glyph * share, style=colour)
    return text
