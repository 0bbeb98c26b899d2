"""What a notebook shows of a report: a fragment that needs no style sheet and no script.

Colours are the notebook's own, but for those of the bar, which stand out on dark and on light.
Every look is an inline style: notebooks that are not trusted drop style sheets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hfkv.core.comparison import Comparison, Row
from hfkv.core.counts import counted
from hfkv.core.report import Report
from hfkv.render.compare import (
    Cell,
    gpu_cells,
    gpus_of,
    model_cells,
    model_columns,
    reason,
    workload_phrase,
)
from hfkv.render.fits import GPU_COLUMNS, fit_cells, fit_heading, fits_phrase
from hfkv.render.html.elements import Html, el, join
from hfkv.render.phrases import (
    MARKS,
    load_phrase,
    model_phrase,
    verdict,
    weights_phrase,
)
from hfkv.render.units import NOTHING, dtype, size

if TYPE_CHECKING:
    from hfkv.core.fit import FitReport

__all__ = ["comparison_fragment", "report_fragment"]

_LINE = "1px solid rgba(128, 128, 128, 0.4)"
_WEIGHTS, _OVERHEAD, _CACHE = "#3b82c4", "#b8860b", "#b04fa0"
_FREE = "rgba(128, 128, 128, 0.25)"


def report_fragment(report: Report) -> str:
    """Return the verdict, what it takes, a row for each GPU, and the warnings."""
    feeling, sentence = verdict(report)
    fits = report.fit
    return _fragment(
        el("strong", report.files.target.id, style="font-size: 1.1em"),
        el("div", model_phrase(report), style="opacity: 0.75"),
        _block(el("strong", f"{MARKS[feeling]} {sentence}")),
        _bar(report, fits[0]) if len(fits) == 1 else None,
        _table(("", ">size", ""), _memory(report), "What it takes"),
        _gpus(report) if fits else None,
        _warnings(report),
    )


def comparison_fragment(answer: Comparison) -> str:
    """Return a row for each model, the best figures in bold."""
    gpus = gpus_of(answer)
    heading = ["model", *model_columns(answer)]
    for gpu in gpus:
        heading += [gpu, *GPU_COLUMNS]
    rows = (_model(answer, row, len(heading)) for row in answer.rows)
    caption = f"{counted(len(answer.rows), 'model')} at {workload_phrase(answer)}"
    return _fragment(_table((*heading, "warnings"), rows, caption))


def _fragment(*children: Html | None) -> str:
    return str(el("div", *children, style="line-height: 1.45; overflow-x: auto"))


def _block(*children: Html | str | None) -> Html:
    return el("div", *children, style="margin: 0.5em 0")


def _bar(report: Report, fit: FitReport) -> Html:
    """Return the memory of one GPU, shared out; what does not fit makes the bar longer."""
    parts = (
        ("weights", fit.weights_bytes_per_gpu or 0, _WEIGHTS),
        ("overhead", fit.overhead_bytes_per_gpu, _OVERHEAD),
        ("KV cache", fit.kv_bytes_per_gpu if report.kv else 0, _CACHE),
    )
    needed = sum(nbytes for _, nbytes, _ in parts)
    free = max(0, fit.budget_bytes - needed)
    unused = max(0, fit.memory_bytes - max(fit.budget_bytes, needed))
    whole = needed + free + unused
    shown = [
        part
        for part in (*parts, ("free", free, _FREE), ("not used", unused, "transparent"))
        if part[1]
    ]
    words = ", ".join(f"{name} {size(nbytes)}" for name, nbytes, _ in shown)
    cells = (_cell(nbytes, whole, colour) for _, nbytes, colour in shown)
    return _block(
        el(
            "div",
            *cells,
            role="img",
            aria_label=f"{words} of {size(fit.memory_bytes)}",
            style=f"display: flex; max-width: 60em; height: 1.1em; border: {_LINE}",
        ),
        el("div", *_legend(shown), style="font-size: 0.9em"),
    )


def _cell(nbytes: int, whole: int, colour: str) -> Html:
    return el("div", style=f"width: {100 * nbytes / whole:.3f}%; background: {colour}")


def _legend(parts: Iterable[tuple[str, int, str]]) -> Iterable[Html]:
    square = f"display: inline-block; width: 0.8em; height: 0.8em; border: {_LINE}"
    for name, nbytes, colour in parts:
        dot = el("span", style=f"{square}; margin-right: 0.3em; background: {colour}")
        yield el("span", dot, f"{name} {size(nbytes)}", style="margin-right: 1.2em")


def _memory(report: Report) -> Iterable[tuple[Html | str, ...]]:
    if report.resident is not None:
        origin = report.resident.source if report.what_if is None else weights_phrase(report)
        yield "weights", size(report.resident.loaded_bytes), origin
    else:
        yield "weights", NOTHING, "not known"
    kv = report.kv
    if kv is None:
        yield "KV cache", NOTHING, "cannot be sized"
        return
    yield "KV cache", size(kv.bytes), f"{load_phrase(report, kv)}, {dtype(kv.dtype)}"
    yield "each further token", size(kv.bytes_per_token), ""


def _gpus(report: Report) -> Html:
    rows = (fit_cells(report, fit) for fit in report.fit)
    return _table(fit_heading(overhead=True), rows, "On which GPU")


def _warnings(report: Report) -> Html | None:
    if not report.findings:
        return None
    items = (
        el("li", el("code", one.code), f" {one.message}{f' ({one.hint})' if one.hint else ''}")
        for one in report.findings
    )
    return el("ul", *items, style="margin: 0.5em 0; padding-left: 1.4em")


def _model(answer: Comparison, row: Row, width: int) -> list[Html | str]:
    report = row.report
    if report is None:
        dashes = [NOTHING] * (width - 1)
        return [row.id, *dashes, join(el("strong", "not read"), f": {reason(row)}")]
    cells = [row.id, *(_figure(cell) for cell in model_cells(answer, report))]
    for place, fit in enumerate(report.fit):
        cells += [fits_phrase(fit), *(_figure(cell) for cell in gpu_cells(answer, report, place))]
    cells += [NOTHING] * (width - len(cells))
    return [*cells, " ".join(dict.fromkeys(finding.code for finding in report.findings))]


def _figure(cell: Cell) -> Html | str:
    return el("strong", cell.text) if cell.best else cell.text


def _table(heading: Iterable[str], rows: Iterable[Iterable[Html | str]], caption: str) -> Html:
    """Return a table; a heading that starts with `>` is of figures."""
    names = list(heading)
    sides = ["right" if name.startswith(">") else "left" for name in names]
    looks = [
        f"text-align: {side}; padding: 0.15em 0.8em 0.15em 0; white-space: nowrap" for side in sides
    ]
    head = [
        el("th", name.removeprefix(">"), scope="col", style=f"{look}; border-bottom: {_LINE}")
        for name, look in zip(names, looks, strict=True)
    ]
    body = [
        el("tr", *(el("td", cell, style=look) for cell, look in zip(row, looks, strict=True)))
        for row in rows
    ]
    title = el("caption", caption, style="text-align: left; opacity: 0.75; white-space: nowrap")
    inside = (title, el("thead", el("tr", *head)), el("tbody", *body))
    return el("table", *inside, style="border-collapse: collapse; margin: 0.5em 0; color: inherit")
