"""What the name of a repository promises of its weights, before anything is known of them."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Guess", "guess_by_name"]

# 8B, 1.5b, 350M, 8x7B; not the 4 of 4bit, nor the active parameters of A3B
_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d{1,3})x)?(\d{1,4}(?:\.\d{1,3})?)([mbt])(?![a-z0-9])")
_UNITS = {"m": 1e6, "b": 1e9, "t": 1e12}

# Files are split at 5 GB by transformers 4 and at 50 GB by transformers 5: the smallest model
# in several files is 1.25e9 parameters of 4 bytes, the largest in one 1e11 of 4 bits.
_FEWEST_IN_SEVERAL = 1.2e9
_MOST_IN_ONE = 1e11


class Guess(NamedTuple):
    """Whether the weights may be one file, and whether they may be several.

    A guess decides only what is asked for before the file list is there, never a result.
    """

    one_file: bool
    several: bool


def guess_by_name(repo: str) -> Guess:
    """Return what the parameters in a name, if it states any, leave possible."""
    name = repo.rpartition("/")[2].lower()
    stated = [
        int(times or 1) * float(number) * _UNITS[unit]
        for times, number, unit in _SIZE.findall(name)
    ]
    if not stated:
        return Guess(one_file=True, several=True)
    return Guess(one_file=max(stated) < _MOST_IN_ONE, several=max(stated) >= _FEWEST_IN_SEVERAL)
