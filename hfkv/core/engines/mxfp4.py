"""Mxfp4 experts as a kernel lays them out: padded to its tiles, and partly kept twice."""

from __future__ import annotations

from fractions import Fraction

from hfkv.core.record import dataclass

__all__ = ["UNPADDED", "ExpertMatrix", "Mxfp4Kernel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertMatrix:
    """One matrix of mxfp4 experts: its model's hidden and inner width, and what of it.

    `down` is inner to hidden, else gate and up side by side; `part` is blocks (its values),
    scales or bias, of which only the width of its rows is known (the other is 0).
    """

    hidden: int
    inner: int
    down: bool
    part: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mxfp4Kernel:
    """What the hidden and a rank's inner width are rounded up to, and a matrix's tiles then.

    Tiles are rows and columns, in values. `keeps_scales`: the scales as they were loaded stay
    beside those laid out anew; `wide_bias`: a 16-bit bias becomes float32. `certain` is False
    where the release or the GPU leaves more than one kernel.
    """

    name: str
    hidden: int = 1
    inner: int = 1
    values: tuple[int, int] = (1, 1)
    scales: tuple[int, int] = (1, 1)
    keeps_scales: bool = False
    wide_bias: bool = False
    certain: bool = True

    def growth(self, matrix: ExpertMatrix, tp: int) -> Fraction:
        """Return by how much a rank's part of a matrix grows."""
        hidden = _up(Fraction(matrix.hidden), self.hidden)
        inner = _up(Fraction(matrix.inner, tp), self.inner)
        rows, columns = (hidden, inner) if matrix.down else (2 * inner, hidden)
        if matrix.part == "bias":
            stored = Fraction(matrix.hidden) if matrix.down else Fraction(2 * matrix.inner, tp)
            return (2 if self.wide_bias else 1) * rows / stored
        tile = self.scales if matrix.part == "scales" else self.values
        size = _up(rows, tile[0]) * _up(columns, tile[1])
        if matrix.part == "scales" and self.keeps_scales:
            size += rows * columns
        stored = Fraction(matrix.hidden * matrix.inner * (1 if matrix.down else 2), tp)
        return size / stored


UNPADDED = Mxfp4Kernel(name="as stored")


def _up(size: Fraction, multiple: int) -> Fraction:
    """Return a size rounded up to a multiple; 1 leaves it as it is."""
    return size if multiple == 1 else Fraction(-(-size // multiple) * multiple)
