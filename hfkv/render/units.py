"""Numbers and foreign text as people read them; no other module formats a unit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

__all__ = [
    "clean",
    "count",
    "dtype",
    "escaped",
    "integer",
    "percent",
    "ratio",
    "size",
    "sizes",
    "things",
    "tokens",
]

NOTHING = "–"  # what stands where there is no figure

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_DECIMAL = ("", "K", "M", "B", "T")

_SHORT_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}

# C0, DEL and C1 move a terminal's cursor; line separators and bidirectional marks reorder what
# is read; a lone surrogate cannot be encoded at all.
_UNSAFE = r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"


def clean(text: str, limit: int = 400) -> str:
    r"""Return foreign text with control characters written out (`\x1b`), cut to `limit`."""
    shown = text if len(text) <= limit else text[: limit - 1] + "…"
    return escaped(shown, _escape)


def escaped(text: str, escape: Callable[[re.Match[str]], str]) -> str:
    """Return text with everything that steers a terminal escaped; nearly all text has none."""
    return text if text.isprintable() else re.sub(_UNSAFE, escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _three_digits(value: int, unit: int) -> str:
    """Return value/unit with three significant digits, rounded half up in integers."""
    for digits in (2, 1, 0):
        scale = 10**digits
        rounded = (2 * value * scale + unit) // (2 * unit)
        if rounded < 1000 or digits == 0:
            break
    whole, part = divmod(rounded, scale)
    return f"{whole:,}.{part:0{digits}d}" if digits else f"{whole:,}"


def _scaled(value: int, base: int, names: tuple[str, ...]) -> tuple[str, str]:
    """Return the number and the name of the largest unit that leaves it at least one."""
    power = 0
    while power + 1 < len(names) and 2 * value >= 2 * base ** (power + 1) - base**power:
        power += 1
    return _three_digits(value, base**power) if power else str(value), names[power]


def size(nbytes: int) -> str:
    """Return bytes as `15.0 GiB`, `128 KiB` or `512 B`."""
    number, unit = _scaled(nbytes, 1024, _BINARY)
    # 128 KiB is exact and reads better than 128.00; so does 4 KiB beside it
    power = 1024 ** _BINARY.index(unit)
    exact = nbytes % power == 0 and nbytes < 1000 * power
    return f"{nbytes // power if exact and unit in ('KiB', 'MiB') else number} {unit}"


def sizes(values: Sequence[int]) -> list[str]:
    """Return bytes in one unit, the largest that leaves a tenth: figures to be compared."""
    unit = _scaled(10 * min(values, default=0), 1024, _BINARY)[1]
    scale = 1024 ** _BINARY.index(unit)
    return [f"{_three_digits(value, scale)} {unit}" for value in values]


def size_or_none(nbytes: int | None) -> str:
    """Return bytes as `size` does, a dash where the figure is not known."""
    return NOTHING if nbytes is None else size(nbytes)


def gigabytes(nbytes: int | None) -> str:
    """Return bytes as vendors count them: `80 GB` of 10^9."""
    if nbytes is None:
        return NOTHING
    return f"{nbytes / 10**9:,.1f}".removesuffix(".0") + " GB"


def bandwidth(nbytes: int | None) -> str:
    """Return bytes per second as `3,350 GB/s`."""
    return NOTHING if nbytes is None else f"{nbytes / 10**9:,.0f} GB/s"


def count(value: int) -> str:
    """Return a number of things as `8.03 B`, `236 M` or `512`."""
    number, unit = _scaled(value, 1000, _DECIMAL)
    return f"{number} {unit}".rstrip()


def things(value: int, noun: str) -> str:
    """Return a number of things in words: `8.03 B parameters`, `1 parameter`."""
    return f"{count(value)} {noun}{'s' * (value != 1)}"


def integer(value: int | None) -> str:
    """Return a whole number with thousands separators, a dash where there is none."""
    return NOTHING if value is None else f"{value:,}"


def dtype(name: str | None) -> str:
    """Return a number format as `--kv-dtype` takes it: bf16 for bfloat16."""
    return NOTHING if name is None else clean(_SHORT_DTYPES.get(name, name), 40)


def percent(part: int, whole: int) -> str:
    """Return part of whole as `22 %`, with `<1 %` for what would round to nothing."""
    if whole <= 0:
        return ""
    rounded = (200 * part + whole) // (2 * whole)
    return "<1 %" if rounded == 0 and part > 0 else f"{rounded} %"


def ratio(value: int, other: int) -> str:
    """Return value over the smaller other as `4.5×` or `57×`."""
    number = _three_digits(value, other)
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number}×"


def tokens(number: int) -> str:
    """Return a length as `--context` takes it: 32k for 32,768, 1m for 1,048,576."""
    for unit, each in (("m", 2**20), ("k", 2**10)):
        if number >= each and number % each == 0:
            return f"{number // each}{unit}"
    return str(number)
