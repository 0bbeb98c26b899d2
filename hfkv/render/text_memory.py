"""What it takes: weights, cache and overhead against the memory of each GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from hfkv.core.counts import counted
from hfkv.core.engines.titles import engine_title
from hfkv.core.kv import KVReport
from hfkv.core.report import Report
from hfkv.render.bars import FREE, KV, LEFT, OVERHEAD, WEIGHTS, Part, bar, cells
from hfkv.render.fits import fit_heading
from hfkv.render.phrases import (
    Verdict,
    budget_phrase,
    format_phrase,
    gpu_phrase,
    load_phrase,
    most,
    overhead_origin,
    weights_phrase,
)
from hfkv.render.sheet import Sheet, quiet, table
from hfkv.render.text_capacity import capacity
from hfkv.render.units import clean, dtype, percent, size, size_or_none

if TYPE_CHECKING:
    from hfkv.core.fit import FitReport

__all__ = ["fit_mark", "memory_section"]

_BAR_LIMIT = 96


def memory_section(report: Report, width: int) -> Iterator[RenderableType]:
    """Yield the bar and figures of one GPU, a table of several, or what is known without any."""
    if len(report.fit) > 1:
        yield _many(report, width)
    elif report.fit:
        yield from _one(report, report.fit[0], width)
    else:
        yield from _without_gpu(report, width)


def _without_gpu(report: Report, width: int) -> Iterator[RenderableType]:
    parts = []
    if report.resident is not None:
        parts.append(_weights_part(report, report.resident.loaded_bytes))
    if report.kv is not None:
        parts.append(_cache_part(report, report.kv, report.kv.bytes))
    if all(part.bytes for part in parts) and len(parts) > 1:
        yield bar(tuple(parts), _bar_width(width))
    if parts:
        yield _legend(tuple(parts), _total(tuple(parts)))
    if report.kv is not None:
        yield quiet("Add --gpu a100-80 (or auto, or all) to see whether it fits.")


def _weights_part(report: Report, nbytes: int) -> Part:
    """Return the weights as they are loaded, beside what is in the files where that is more."""
    weights, note = report.weights, ""
    if report.what_if is not None:
        note = weights_phrase(report)
    elif weights is not None and not report.fit and weights.loaded_bytes != weights.bytes:
        note = f"of {size(weights.bytes)} in the files"
    elif weights is not None and weights.quantization is not None:
        note = format_phrase(weights)
    return Part(name="weights", bytes=nbytes, look=WEIGHTS, note=note)


def _cache_part(report: Report, kv: KVReport, nbytes: int) -> Part:
    note = f"{load_phrase(report, kv)}, {dtype(kv.dtype)}" if kv.components else "none is kept"
    if kv.shared_bytes:
        note += f", the first {counted(report.workload.shared_prefix, 'token')} in common"
    return Part(name="KV cache", bytes=nbytes, look=KV, note=note)


def _bar_width(width: int) -> int:
    return min(_BAR_LIMIT, width - 2)


def _legend(parts: tuple[Part, ...], whole: int) -> Sheet:
    grid = table("", ">", ">", "")
    for part in parts:
        glyph, colour = part.look
        name = Text(f"{glyph} ", style=colour).append(part.name, style="default")
        grid.add_row(name, size(part.bytes), percent(part.bytes, whole), quiet(part.note))
    return grid


def _one(report: Report, fit: FitReport, width: int) -> Iterator[RenderableType]:
    budget = budget_phrase(report, fit)
    yield quiet(f"{gpu_phrase(fit)}{_parallel(fit)}: {budget} for {_engine(report)}")
    if fit.free_bytes is not None and fit.free_bytes < fit.budget_bytes:
        yield Text(
            f"Only {size(fit.free_bytes)} are free now: others use the rest.", style="yellow"
        )
    needs = _needs(report, fit)
    parts = (*needs, *_rest(fit, needs))
    yield bar(parts, _bar_width(width))
    if needs == parts:
        yield _limit(fit.budget_bytes, _total(needs), _bar_width(width))
    yield _legend(parts, max(fit.memory_bytes, _total(parts)))
    yield from _in_host(fit)
    yield ""
    yield from capacity(report, fit, width)
    yield from (quiet(clean(note)) for note in fit.notes)


def _in_host(fit: FitReport) -> Iterator[RenderableType]:
    """Yield what is left to host memory, of all GPUs together."""
    parts = {"weights": fit.host_weights_bytes, "cache": fit.host_kv_bytes}
    told = [f"{size(nbytes)} of {name}" for name, nbytes in parts.items() if nbytes]
    if told:
        whole = f"{size(fit.host_weights_bytes + fit.host_kv_bytes)}: " if len(told) > 1 else ""
        yield quiet(f"in host memory {whole}{' and '.join(told)}")


def _engine(report: Report) -> str:
    engine = report.workload.engine
    return "the engine" if engine == "none" else engine_title(engine)


def _limit(budget: int, needed: int, width: int) -> Text:
    """Return the line under an overflowing bar that shows where the GPU ends."""
    column = min(width - 1, cells((budget, needed - budget), width)[0])
    label = f"{size(budget)} is all there is"
    fits_right = column + 2 + len(label) <= width
    line = f"{'':{column}}▲ {label}" if fits_right else f"{label} ▲".rjust(column + 1)
    return Text(line, style="red", no_wrap=True)


def _parallel(fit: FitReport) -> str:
    parts = [f"tensor parallel {fit.tensor_parallel_size}"] if fit.tensor_parallel_size > 1 else []
    if fit.pipeline_parallel_size > 1:
        parts.append(f"pipeline parallel {fit.pipeline_parallel_size}")
    return f" ({', '.join(parts)})" if parts else ""


def _needs(report: Report, fit: FitReport) -> tuple[Part, ...]:
    """Return what one GPU is to hold."""
    estimated = ", ".join(f"{clean(p.name)} {size(p.bytes)}" for p in fit.overhead_parts)
    low, high = size(fit.overhead_low_bytes), size(fit.overhead_high_bytes)
    note = (
        f"estimated, {low} to {high}: {estimated}"
        if estimated
        else overhead_origin((), fit.overhead_bytes_per_gpu)
    )
    parts = [Part(name="overhead", bytes=fit.overhead_bytes_per_gpu, look=OVERHEAD, note=note)]
    if fit.weights_bytes_per_gpu is not None:
        parts.insert(0, _weights_part(report, fit.weights_bytes_per_gpu))
    if report.kv is not None:
        parts.append(_cache_part(report, report.kv, fit.kv_bytes_per_gpu))
    return tuple(parts)


def _rest(fit: FitReport, needs: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return what is left of the GPU, nothing when the budget is overdrawn."""
    if fit.short_by_bytes:
        return ()
    free = "for more sequences or longer ones" if fit.kv_bytes_per_gpu else ""
    if fit.weights_bytes_per_gpu is None:
        free = "for the weights, which are not known"
    budget, memory = fit.budget_bytes, fit.memory_bytes
    rest = Part(name="free", bytes=budget - _total(needs), look=FREE, note=free)
    if budget >= memory:
        return (rest,)
    left = Part(name="not used", bytes=memory - budget, look=LEFT, note="left to the system")
    return rest, left


def _total(parts: tuple[Part, ...]) -> int:
    return sum(part.bytes for part in parts)


def _many(report: Report, width: int) -> Sheet:
    wide = width >= 110
    grid = table(*fit_heading(""), *(["per GPU"] if wide else []))
    for fit in report.fit:
        row: list[Text | str] = [
            Text(gpu_phrase(fit), style="dim" if fit.fits is False else "default"),
            size(fit.memory_bytes),
            size_or_none(fit.weights_bytes_per_gpu),
            size(fit.kv_pool_bytes_per_gpu),
            fit_mark(fit),
            *most(report, fit),
        ]
        grid.add_row(*row, *([_small_bar(report, fit)] if wide else []))
    return grid


def fit_mark(fit: FitReport) -> Text:
    """Return a sign for whether it fits."""
    if fit.fits is None:
        return Text("?", style="yellow")
    if fit.verdict == Verdict.TIGHT.value:
        return Text("≈", style="yellow")
    return Text("✔", style="green") if fit.fits else Text("✘", style="red")


def _small_bar(report: Report, fit: FitReport) -> Text:
    needs = _needs(report, fit)
    return bar((*needs, *_rest(fit, needs)), 24)
