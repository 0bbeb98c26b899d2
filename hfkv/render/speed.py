"""The speed ceiling in words: a bound with its arithmetic, never a prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hfkv.core.counts import counted
from hfkv.render.units import bandwidth, clean, gigabytes, size

if TYPE_CHECKING:
    from hfkv.core.fit import FitReport
    from hfkv.core.speed import SpeedCeiling

__all__ = ["CAVEAT", "ceiling_arithmetic", "ceiling_phrase"]

CAVEAT = (
    "An upper bound by memory bandwidth while decoding, no prediction: kernels, exchange"
    " between GPUs, sampling and scheduling only make it slower."
)


def ceiling_phrase(fit: FitReport) -> str:
    """Return the bound, or why there is none."""
    ceiling = fit.speed
    if fit.fits is False:
        return "it does not fit, so it has no speed"
    if ceiling is None:
        return "no bound: its bandwidth is not known, or not which weights a token reads"
    each, every = _rate(ceiling.tokens_per_s_per_sequence), _rate(ceiling.tokens_per_s)
    if ceiling.sequences == 1:
        return f"at most {each} tokens/s"
    sequences = counted(ceiling.sequences, "sequence")
    return f"at most {each} tokens/s for each of {sequences}, {every} in all"


def _rate(rate: float) -> str:
    return f"{rate:,.1f}" if rate < 100 else f"{rate:,.0f}"


def ceiling_arithmetic(ceiling: SpeedCeiling) -> str:
    """Return the bytes of one step and the division that gives the bound."""
    parts = ", ".join(f"{clean(part.name, 60)} {size(part.bytes)}" for part in ceiling.parts)
    speed = bandwidth(ceiling.bandwidth_bytes_per_s)
    each = _rate(ceiling.tokens_per_s_per_sequence)
    return (
        f"each step reads {size(ceiling.bytes_per_step)} ({parts}); {speed} ÷"
        f" {gigabytes(ceiling.bytes_per_step)} = {each} steps/s"
    )
