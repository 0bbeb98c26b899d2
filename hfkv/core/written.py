"""Values as people write them: `32k` tokens, `2gib`, `0.9`, `1200,8k`.

Each reader takes the text and raises ValueError with the sentence that is shown.
"""

from __future__ import annotations

import re
from fractions import Fraction

__all__ = [
    "context",
    "counts",
    "latent",
    "lengths",
    "offload",
    "parameters",
    "seconds",
    "share",
    "size",
    "source_tokens",
    "whole",
    "window",
]

# Plain text: few of them are met in one run, and compiling them all takes longer than to meet one.
_TOKENS = r"(?i)([0-9][0-9_]{0,15}(?:\.[0-9]{1,6})?)(k|m)?"
_TOKEN_UNITS = {"": 1, "k": 1024, "m": 1024 * 1024}
_MOST_TOKENS = 10**12

_MOST = 10**9

_SIZE = r"(?i)([0-9]{1,15}(?:\.[0-9]{1,9})?) ?(b|[kmgt]i?b)"
_SIZE_UNITS = {
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
}

_PARAMETERS = r"(?i)([0-9][0-9_]{0,15}(?:\.[0-9]{1,9})?) ?([kmbt]?)"
_PARAMETER_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_MOST_PARAMETERS = 10**15
_WINDOW = r"([^:]+)(?::([0-9]{1,5})/([0-9]{1,5}))?"

_SHARE = r"([0-9]{0,3}(?:\.[0-9]{1,12})?)(%?)"
_SECONDS = r"([0-9]{1,6}(?:\.[0-9]{1,3})?)s?"


def context(text: str) -> int | None:
    """Return the tokens of `8192`, `32k` (32 x 1024) or `1m`; None for `max`."""
    return None if text.lower() == "max" else _tokens(text, least=1, also=", or max")


def source_tokens(text: str) -> int:
    """Return a number of positions, which may be none."""
    return _tokens(text, least=0)


def whole(text: str) -> int:
    """Return a whole number from 1 to 10^9."""
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:20]) <= _MOST):
        raise ValueError(f"{text!r} is not a whole number from 1 to {_MOST:,}")
    return int(text)


def lengths(text: str) -> tuple[int, ...]:
    """Return numbers of tokens that have commas between them."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise ValueError(f"{text!r} holds no lengths; write 1200,8k,32k")
    return tuple(_tokens(word, least=1) for word in words)


def _tokens(text: str, *, least: int, also: str = "") -> int:
    match = re.fullmatch(_TOKENS, text)
    if match is None:
        raise ValueError(f"{text!r} is not a number of tokens such as 8192 or 32k{also}")
    exact = Fraction(match[1].replace("_", "")) * _TOKEN_UNITS[(match[2] or "").lower()]
    if exact.denominator != 1:
        raise ValueError(f"{text!r} is not a whole number of tokens (k is 1024)")
    if not least <= exact <= _MOST_TOKENS:
        raise ValueError(f"{text!r} is not between {least} and {_MOST_TOKENS:,} tokens")
    return int(exact)


def size(text: str) -> int:
    """Return the bytes of `2gib` (2^30) or `2gb` (10^9); a unit is needed."""
    match = re.fullmatch(_SIZE, text)
    if match is None and text != "0":
        raise ValueError(f"{text!r} is not a size such as 2gib (2^30) or 2gb (10^9)")
    return int(Fraction(match[1]) * _SIZE_UNITS[match[2].lower()]) if match else 0


def share(text: str) -> Fraction:
    """Return `0.9` or `90%` as an exact fraction above 0 and up to 1."""
    match = re.fullmatch(_SHARE, text)
    exact = Fraction(match[1]) / (100 if match[2] else 1) if match and match[1] else Fraction()
    if not 0 < exact <= 1:
        raise ValueError(f"{text!r} is not a share such as 0.9, above 0 and up to 1")
    return exact


def offload(text: str) -> Fraction:
    """Return the share of the weights in `weights=20%`, from none to all of them."""
    what, _, written = text.partition("=")
    match = re.fullmatch(_SHARE, written.strip())
    exact = Fraction(match[1]) / (100 if match[2] else 1) if match and match[1] else None
    if what.strip().lower() != "weights" or exact is None or exact > 1:
        raise ValueError(f"{text!r} is not a share of the weights such as weights=20%")
    return exact


def counts(text: str) -> tuple[int, ...]:
    """Return whole numbers that have commas between them."""
    return tuple(whole(word.strip()) for word in text.split(","))


def parameters(text: str) -> int:
    """Return a number of parameters such as `7b` (7 x 10^9) or `350m`."""
    match = re.fullmatch(_PARAMETERS, text)
    units = _PARAMETER_UNITS[match[2].lower()] if match else 0
    exact = Fraction(match[1].replace("_", "")) * units if match else Fraction()
    if not 1 <= exact <= _MOST_PARAMETERS:
        raise ValueError(f"{text!r} is not a number of parameters such as 7b or 350m")
    return int(exact)


def latent(text: str) -> int:
    """Return the width of a latent vector, written whole (`576`) or in parts (`512+64`)."""
    return sum(whole(part.strip()) for part in text.split("+"))


def window(text: str) -> tuple[int, int, int]:
    """Return (tokens, layers of a group that have the window, layers of a group).

    `4096` is a window in every layer, `4096:5/6` in 5 of every 6.
    """
    match = re.fullmatch(_WINDOW, text)
    if match is None:
        raise ValueError(f"{text!r} is not a window such as 4096, or 4096:5/6 for 5 of 6 layers")
    return _tokens(match[1].strip(), least=1), int(match[2] or 1), int(match[3] or 1)


def seconds(text: str) -> float:
    """Return a time limit above 0."""
    match = re.fullmatch(_SECONDS, text)
    if match is None or float(match[1]) == 0:
        raise ValueError(f"{text!r} is not a number of seconds above 0")
    return float(match[1])
