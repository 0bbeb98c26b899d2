"""The table of several GPUs: what each has room for, under the same names in every format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hfkv.render.phrases import Verdict, gpu_phrase, most
from hfkv.render.units import size, size_or_none

if TYPE_CHECKING:
    from hfkv.core.fit import FitReport
    from hfkv.core.report import Report

__all__ = ["GPU_COLUMNS", "fit_cells", "fit_heading", "fits_phrase"]

GPU_COLUMNS = (">sequences", ">longest")  # of what `most` returns


def fit_heading(told: str = "fits", *, overhead: bool = False) -> tuple[str, ...]:
    """Return the columns; `told` is the one that says whether it fits."""
    reserved = (">overhead",) if overhead else ()
    return ("GPU", ">memory", ">weights", *reserved, ">left for KV", told, *GPU_COLUMNS)


def fit_cells(report: Report, fit: FitReport) -> tuple[str, ...]:
    """Return one GPU under `fit_heading` with its overhead."""
    return (
        gpu_phrase(fit),
        size(fit.memory_bytes),
        size_or_none(fit.weights_bytes_per_gpu),
        ("≈ " if fit.overhead_parts else "") + size(fit.overhead_bytes_per_gpu),
        size(fit.kv_pool_bytes_per_gpu),
        fits_phrase(fit),
        *most(report, fit),
    )


def fits_phrase(fit: FitReport) -> str:
    """Return whether it fits, in the words of a table cell."""
    if fit.fits is None:
        return "weights unknown"
    if not fit.fits:
        return f"short by {size(fit.short_by_bytes)}"
    return "tightly" if fit.verdict == Verdict.TIGHT.value else "yes"
