"""What to watch out for, and where every figure comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hfkv.core.counts import counted
from hfkv.core.evidence import Evidence
from hfkv.core.kv import KVReport
from hfkv.core.readings import Finding, Reading
from hfkv.core.report import Report
from hfkv.core.weights import QuantizationReport, WeightReport
from hfkv.render.evidence import confidence_phrase, figures
from hfkv.render.phrases import (
    gpu_phrase,
    overhead_origin,
    scheme_phrase,
    share_phrase,
    weights_origin,
)
from hfkv.render.sheet import Sheet, quiet, table
from hfkv.render.units import NOTHING, clean, count, dtype, integer, percent, size

if TYPE_CHECKING:
    from hfkv.core.fit import FitReport
    from hfkv.core.what_if import WhatIf

__all__ = ["findings_section", "sources_section"]

_LADDER_STYLE = {
    "confirmed": "green",
    "declared": "green",
    "inferred": "yellow",
    "doubtful": "yellow",
    "unknown": "red",
}

_UNQUANTIZED = ("bfloat16", "float16", "float32")


def findings_section(report: Report) -> Iterator[RenderableType]:
    """Yield every finding: its code, what is true, and what to do."""
    for finding in report.findings:
        yield _finding(finding)


def _finding(finding: Finding) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True, style="yellow")
    grid.add_column()
    text = Text(clean(finding.code, 40), style="yellow").append("  ")
    grid.add_row("▲", text.append(clean(finding.message, 1000), style="default"))
    if finding.hint:
        grid.add_row("", Text(f"→ {clean(finding.hint, 1000)}", style="dim"))
    return grid


def sources_section(report: Report, width: int, *, explain: bool) -> Iterator[RenderableType]:
    """Yield the confidence and the origin of the figures; with `explain`, of each one."""
    yield _origins(report, explain=explain)
    if not explain:
        return
    if report.architecture.readings:
        yield ""
        yield from _figures(report, width)
        yield from _evidence(report.evidence)
    if report.weights is not None:
        yield ""
        yield _by_dtype(report.weights)
        yield ""
        yield _by_role(report.weights)
    if report.kv is not None and report.kv.components:
        yield ""
        yield from _cache(report.kv)
    for fit in report.fit:
        yield ""
        yield from _pool(report, fit)


def _origins(report: Report, *, explain: bool) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    architecture = report.architecture
    word = architecture.confidence.name.lower()
    grade = Text(word, style=_LADDER_STYLE[word])
    phrase = confidence_phrase(architecture, report.evidence)
    grid.add_row("architecture", grade.append(f": {phrase}", style="default"))
    if not explain:
        for line in _beyond_the_file(architecture.readings):
            grid.add_row("", line)
    if report.weights is not None:
        grid.add_row("weights", _weights_origin(report.weights))
        if report.what_if is not None:
            grid.add_row("", _what_if(report.what_if))
        for note in report.weights.notes:
            grid.add_row("", clean(note))
    for name, text in _formats(report):
        grid.add_row(name, text)
    for fit in report.fit[:1]:
        grid.add_row("GPU memory", clean(fit.memory_source))
        parts = overhead_origin(fit.overhead_parts, fit.overhead_bytes_per_gpu)
        grid.add_row("overhead", parts)
        if fit.step is not None and report.workload.engine != "none":
            tokens, sequences = fit.step.batched_tokens, fit.step.max_num_seqs
            sizes = f"{counted(tokens, 'token')} and {counted(sequences, 'sequence')}"
            grid.add_row("engine steps", f"up to {sizes}{_on(report, fit)}")
    return grid


def _what_if(found: WhatIf) -> str:
    """Return the estimate that stands in for the weights there are."""
    kept = f", {size(found.unquantized_bytes)} of it left as it is" if found.by_role else ""
    return f"counted as {dtype(found.name)}, an estimate: {size(found.bytes)}{kept}"


def _formats(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the formats of weights and cache apart: the one does not decide the other."""
    weights, kv = report.weights, report.kv
    scheme = weights.quantization if weights else None
    if scheme is not None:
        yield "weights in", _scheme(scheme)
    elif weights is not None and weights.half_precision_bytes is not None:
        stored, narrow = size(weights.bytes), size(weights.half_precision_bytes)
        yield "weights in", f"fp32: {stored} in the files, {narrow} when loaded as 16 bit"
    if kv is not None and kv.dtype is not None:
        still = "still " if scheme is not None and kv.dtype in _UNQUANTIZED else ""
        yield "KV cache in", f"{still}{dtype(kv.dtype)} ({clean(kv.dtype_source)})"


def _weights_origin(weights: WeightReport) -> str:
    tensors = counted(weights.tensors, "tensor") if weights.tensors else ""
    return ", ".join(
        part for part in (weights_origin(weights.source, whole=weights.complete), tensors) if part
    )


def _scheme(scheme: QuantizationReport) -> str:
    """Return how the weights are packed, what that costs, and where it says so."""
    parts = [scheme_phrase(scheme)]
    if scheme.group_size is not None and scheme.group_size > 0:
        parts.append(f"groups of {integer(scheme.group_size)}")
    if scheme.effective_bits is not None and scheme.effective_bits[1]:
        bits, parameters = scheme.effective_bits
        parts.append(f"{bits / parameters:.2f} bits a parameter with its scales")
    if scheme.unquantized_modules:
        parts.append(f"{counted(len(scheme.unquantized_modules), 'module')} left as they were")
    return f"{', '.join(parts)} ({clean(scheme.source)})"


def _on(report: Report, fit: FitReport) -> str:
    """Return where that is so, unless it is so on every choice."""
    return "" if all(other.step == fit.step for other in report.fit) else f" on {gpu_phrase(fit)}"


def _beyond_the_file(readings: tuple[Reading, ...]) -> Iterator[str]:
    """Yield the figures that no file states, by the rule or default they come from."""
    by_source: dict[str, list[str]] = {}
    for reading in readings:
        if ".json" not in reading.source:
            by_source.setdefault(clean(reading.source), []).append(clean(reading.field, 60))
    for source, fields in by_source.items():
        yield f"{', '.join(fields)} ← {source}"


def _figures(report: Report, width: int) -> Iterator[RenderableType]:
    """Yield every figure with its path, and below that the tensor that confirms it."""
    grid = table("figure", "value", "path it took")
    lines: list[RenderableType] = []
    for figure in figures(report):
        name, value = clean(figure.name, 60), _value(figure.value)
        path, line = quiet(clean(figure.path)), Text(f"{name} = {value}")
        lines.append(line.append(f" ← {clean(figure.path)}", style="dim"))
        if figure.confirmed is not None:
            mark = Text("✔ ", style="green").append(clean(figure.confirmed), style="default")
            path = Text("\n").join((path, mark))
            lines.append(Padding(mark, (0, 0, 0, 2)))
        grid.add_row(name, value, path)
    yield from [grid] if grid.need() <= width else lines


def _evidence(evidence: Evidence) -> Iterator[RenderableType]:
    """Yield what the tensors contradict, and what they cannot tell."""
    for sentence in evidence.disagreements:
        yield Text("✘ ", style="red").append(clean(sentence, 1000), style="default")
    for sentence in evidence.silent:
        yield quiet(f"– {clean(sentence)}")


def _value(value: object) -> str:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return integer(value)
    if isinstance(value, dict):
        return counted(len(value), "key")
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return (
        f"a list of {len(value)}" if isinstance(value, list) and len(text) > 16 else clean(text, 40)
    )


def _by_dtype(weights: WeightReport) -> Sheet:
    grid = table("stored as", ">tensors", ">elements", ">bytes", ">", ">exactly")
    for name, total in weights.by_dtype.items():
        grid.add_row(
            clean(name, 40),
            integer(total.tensors),
            integer(total.elements),
            size(total.bytes),
            percent(total.bytes, weights.bytes),
            quiet(integer(total.bytes)),
        )
    return grid


def _by_role(weights: WeightReport) -> Sheet:
    grid = table("used for", ">parameters", ">bytes", ">", ">exactly")
    for name, total in weights.by_role.items():
        grid.add_row(
            clean(name, 40).replace("_", " "),
            count(total.parameters) if total.parameters is not None else NOTHING,
            size(total.bytes),
            percent(total.bytes, weights.bytes),
            quiet(integer(total.bytes)),
        )
    return grid


def _cache(kv: KVReport) -> Iterator[RenderableType]:
    """Yield the arithmetic of the cache, one product a component."""
    for part in kv.components:
        product = (
            f"{counted(part.layers, 'layer')} × {counted(part.slots, 'entry')}"
            f" × {integer(part.bytes_per_slot)} B = {integer(part.bytes)} B"
        )
        elements = f"{counted(part.elements_per_slot, 'value')} of {dtype(part.dtype)} an entry"
        yield Text(f"{clean(part.name, 60)}: {product}").append(f" ({elements})", style="dim")
    each = f"{integer(kv.bytes_per_sequence)} B a sequence"
    if kv.bytes == kv.bytes_per_sequence:
        yield Text(each)
    else:
        yield Text(f"{each}, {integer(kv.bytes)} B for {integer(kv.sequences)}")


def _pool(report: Report, fit: FitReport) -> Iterator[RenderableType]:
    """Yield the arithmetic of one GPU, from its memory to the number of sequences."""
    yield Text(f"{gpu_phrase(fit)}, each:")
    grid = table("", ">", "")
    grid.add_row("memory", _bytes(fit.memory_bytes), quiet(clean(fit.memory_source)))
    grid.add_row("budget", _bytes(fit.budget_bytes), quiet(share_phrase(report, fit)))
    if fit.weights_bytes_per_gpu is not None:
        grid.add_row("− weights", _bytes(fit.weights_bytes_per_gpu), "")
    for part in fit.overhead_parts:
        certain, span = part.low == part.high, f"{size(part.low)} to {size(part.high)}"
        span = "exactly, as its source has it" if certain else f"estimated, {span}"
        grid.add_row(f"− {clean(part.name, 60)}", _bytes(part.bytes), quiet(span))
    if not fit.overhead_parts:
        known = fit.overhead_bytes_per_gpu
        grid.add_row("− overhead", _bytes(known), quiet(overhead_origin((), known)))
    grid.add_row("= left for the cache", _bytes(fit.kv_pool_bytes_per_gpu), "")
    each = fit.kv_bytes_per_sequence_per_gpu
    most = counted(fit.max_sequences, "sequence")
    even = not each or fit.kv_pool_bytes_per_gpu // each == fit.max_sequences
    room = f"= {most}" if even else f"room for {most}, with all that their number changes"
    grid.add_row("÷ one sequence", _bytes(each), quiet(room))
    yield grid


def _bytes(nbytes: int) -> str:
    return f"{integer(nbytes)} B"
