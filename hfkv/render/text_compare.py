"""A comparison for a person at a terminal: one table where there is room, else several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from hfkv.core.codes import EXPLAINED
from hfkv.core.comparison import Comparison, Row
from hfkv.core.report import Report
from hfkv.render.bars import EMPTY, KV, WEIGHTS, Part, bar
from hfkv.render.compare import (
    Cell,
    gpu_cells,
    gpus_of,
    model_cells,
    model_columns,
    reason,
    workload_phrase,
)
from hfkv.render.fits import GPU_COLUMNS
from hfkv.render.sheet import Sheet, quiet, table
from hfkv.render.style import Style
from hfkv.render.tables import draw, section, widest
from hfkv.render.text_memory import fit_mark
from hfkv.render.units import NOTHING, clean, integer, size

__all__ = ["compare_text"]

_BAR = 16


def compare_text(answer: Comparison, style: Style) -> str:
    """Return the table, what could not be read and why, and what to watch out for."""
    return draw(_blocks(answer, style.width), style)


def _blocks(answer: Comparison, width: int) -> Iterator[RenderableType]:
    yield Text(f"Compared at {clean(workload_phrase(answer))}", style="bold")
    yield ""
    yield from _tables(answer, width)
    if any(row.report for row in answer.rows):
        yield quiet("★ best of its column")
    yield from section("Could not be read", _failures(answer))
    yield from section("Watch out for", _warnings(answer))


def _tables(answer: Comparison, width: int) -> Iterator[RenderableType]:
    places = range(len(gpus_of(answer)))
    apart = (_sheet(answer, bars=True), _sheet(answer))
    if not places:
        yield widest(apart, width)
        return
    whole = _sheet(answer, places)
    if whole.need() <= width:
        yield whole
        return
    yield widest(apart, width)
    together = _sheet(answer, places, models=False)
    sheets = (_sheet(answer, (place,), models=False) for place in places)
    for sheet in [together] if together.need() <= width else sheets:
        yield ""
        yield sheet


def _sheet(
    answer: Comparison, places: Sequence[int] = (), *, models: bool = True, bars: bool = False
) -> Sheet:
    """Return a row a model: what it takes anywhere, and what the GPUs in `places` hold of it."""
    gpus = gpus_of(answer)
    columns = ["model", *(model_columns(answer) if models else [])]
    columns += ["weights + KV cache"] if bars else []
    for place in places:
        columns += [gpus[place], *GPU_COLUMNS]
    sheet = table(*columns, *([">warnings"] if models else []))
    largest = max((_total(_parts(row.report)) for row in answer.rows if row.report), default=0)
    for row in answer.rows:
        cells = [_name(row)]
        if row.report is not None:
            cells += [_text(cell) for cell in model_cells(answer, row.report)] if models else []
            cells += [_bar(row.report, largest)] if bars else []
            cells += _on_gpus(answer, row.report, places)
        cells += [quiet(NOTHING)] * (len(columns) - len(cells))
        sheet.add_row(*cells, *([_warned(row)] if models else []))
    return sheet


def _name(row: Row) -> Text:
    style = "bold" if row.report is not None else "red"
    return Text(clean(row.id), style=style)


def _text(cell: Cell) -> Text:
    """Return a figure with its mark; one without leaves the room, so that digits align."""
    if cell.best:
        return Text(f"{cell.text} ★", style="green")
    return Text(f"{cell.text}  " if cell.text[-1:].isalnum() else cell.text)


def _on_gpus(answer: Comparison, report: Report, places: Sequence[int]) -> list[Text]:
    cells: list[Text] = []
    for place in places if report.fit else ():
        fit = report.fit[place]
        mark = fit_mark(fit)
        if fit.short_by_bytes:
            mark = Text().join((mark, Text(f" {size(fit.short_by_bytes)} short", style="dim")))
        cells += [mark, *(_text(cell) for cell in gpu_cells(answer, report, place))]
    return cells


def _warned(row: Row) -> Text:
    if row.report is None:
        return Text("not read", style="red")
    number = len(row.report.findings)
    return Text(integer(number), style="yellow") if number else quiet(NOTHING)


def _parts(report: Report) -> tuple[Part, ...]:
    weights = report.resident.loaded_bytes if report.resident else 0
    cache = report.kv.bytes if report.kv else 0
    return Part(name="", bytes=weights, look=WEIGHTS), Part(name="", bytes=cache, look=KV)


def _total(parts: tuple[Part, ...]) -> int:
    return sum(part.bytes for part in parts)


def _bar(report: Report, largest: int) -> Text:
    parts = _parts(report)
    return bar((*parts, Part(name="", bytes=largest - _total(parts), look=EMPTY)), _BAR)


def _failures(answer: Comparison) -> Iterator[RenderableType]:
    for row in answer.rows:
        if row.report is None:
            yield Text("✘ ", style="red").append(clean(row.id), style="default")
            yield Padding(Text(clean(reason(row), 1000)), (0, 0, 0, 2))
            if row.error is not None and row.error.hint:
                yield Padding(quiet(f"→ {clean(row.error.hint, 1000)}"), (0, 0, 0, 2))


def _warnings(answer: Comparison) -> Iterator[RenderableType]:
    """Yield each warning once, with the models that it is about."""
    models: dict[str, list[str]] = {}
    for row in answer.rows:
        for finding in row.report.findings if row.report else ():
            names = models.setdefault(finding.code, [])
            names += [] if row.id in names else [row.id]
    for code, names in models.items():
        line = Text("▲ ", style="yellow").append(f"{clean(code, 40)}  ")
        yield line.append(EXPLAINED.get(code, ""), style="default")
        yield Padding(quiet(", ".join(clean(name) for name in names)), (0, 0, 0, 2))
