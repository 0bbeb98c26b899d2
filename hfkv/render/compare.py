"""A comparison as a document, as Markdown that can be pasted into an issue, and as CSV."""

from __future__ import annotations

from typing import Any

from hfkv import __version__
from hfkv.core.comparison import Comparison, Row
from hfkv.core.counts import counted
from hfkv.core.record import dataclass
from hfkv.core.report import Report
from hfkv.errors import HfkvError
from hfkv.render.csv import COLUMNS, report_rows
from hfkv.render.documents import error_document
from hfkv.render.fits import GPU_COLUMNS, fits_phrase
from hfkv.render.json import inspect_document
from hfkv.render.phrases import gpu_phrase, most, weights_phrase
from hfkv.render.rows import code, escape, markdown_table, write_csv
from hfkv.render.units import NOTHING, count, integer, size_or_none

__all__ = [
    "Cell",
    "compare_csv",
    "compare_document",
    "compare_html",
    "compare_markdown",
    "gpu_cells",
    "gpus_of",
    "model_cells",
    "model_columns",
    "reason",
    "workload_phrase",
]


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure of one model, and whether it is the best of all."""

    text: str
    best: bool = False


def compare_document(answer: Comparison) -> dict[str, Any]:
    """Return the `hfkv.compare/1` document, its models in the order of the comparison."""
    return {
        "schema": "hfkv.compare/1",
        "hfkv_version": __version__,
        "models": [
            _failure(row) if row.report is None else inspect_document(row.report)
            for row in answer.rows
        ],
    }


def compare_html(answer: Comparison) -> str:
    """Return a page that needs nothing else, with a section a model."""
    from hfkv.render.html import page_document, render_html  # noqa: PLC0415  JSON does without

    documents = [
        _failure(row) if row.report is None else page_document(row.report) for row in answer.rows
    ]
    return render_html(documents, title=f"{counted(len(documents), 'model')} compared")


def _failure(row: Row) -> dict[str, Any]:
    error = row.error or HfkvError(reason(row))
    document = error_document(error.code, error.message, error.hint)
    return {"id": row.id, "error": document["error"]}


def compare_csv(answer: Comparison) -> str:
    """Return the rows of all reports; one that failed has its id and the reason."""
    rows: list[list[object]] = []
    for row in answer.rows:
        if row.report is not None:
            rows += [[*cells, None] for cells in report_rows(row.report)]
        elif row.error is not None:
            rows.append([row.id, *[None] * len(COLUMNS), row.error.message])
    return write_csv((*COLUMNS, "warnings", "error"), rows)


def workload_phrase(answer: Comparison) -> str:
    """Return what every model is to hold: `32,768 tokens × 4 sequences, fp8, vllm`."""
    work = answer.workload
    if work.seq_lens:
        held = f"{counted(len(work.seq_lens), 'sequence')}, {counted(sum(work.seq_lens), 'token')}"
    elif work.prompt is not None or work.output is not None:
        prompt, output = integer(work.prompt or 0), integer(work.output or 0)
        held = f"{prompt} + {output} tokens × {counted(work.sequences, 'sequence')}"
    elif work.context is None:
        held = f"the longest context of each × {counted(work.sequences, 'sequence')}"
    else:
        held = f"{counted(work.context, 'token')} × {counted(work.sequences, 'sequence')}"
    dtype = "" if work.kv_dtype == "auto" else work.kv_dtype
    held += f", {work.beams} beams each" if work.beams > 1 else ""
    weights = "" if work.weights_dtype is None else f"weights in {work.weights_dtype} (estimated)"
    engine = "" if work.engine == "none" else work.engine
    return ", ".join(part for part in (held, dtype, weights, engine) if part)


def gpus_of(answer: Comparison) -> list[str]:
    """Return the GPUs of the comparison, as every report names them."""
    report = next((row.report for row in answer.rows if row.report and row.report.fit), None)
    return [gpu_phrase(fit) for fit in report.fit] if report else []


def reason(row: Row) -> str:
    """Return why a row has no report."""
    return row.error.message if row.error is not None else "it was not read"


def model_columns(answer: Comparison) -> list[str]:
    """Return the headings of what one model takes wherever it runs."""
    tokens = [">tokens"] if _own_contexts(answer) else []
    return [">parameters", ">weights", "format", "attention", *tokens, ">KV/token", ">KV cache"]


def _own_contexts(answer: Comparison) -> bool:
    return answer.workload.context is None and not answer.workload.seq_lens


def model_cells(answer: Comparison, report: Report) -> list[Cell]:
    """Return the figures below `model_columns`."""
    weights, kv = report.resident, report.kv
    known = weights.parameters if weights else None
    least = "" if weights is None or weights.complete else "≥ "
    parameters = NOTHING if known is None else f"{least}{count(known)}"
    loaded = f"{least}{size_or_none(weights.loaded_bytes if weights else None)}"
    token = size_or_none(kv.bytes_per_token if kv else None)
    cells = [
        Cell(parameters),
        Cell(loaded, answer.wins(report, "weights")),
        Cell(weights_phrase(report) or NOTHING),
        Cell(report.architecture.attention or NOTHING),
    ]
    if _own_contexts(answer):
        cells.append(Cell(integer(kv.tokens if kv else None)))
    return [
        *cells,
        Cell(token, answer.wins(report, "kv-per-token")),
        Cell(size_or_none(kv.bytes if kv else None), answer.wins(report, "kv")),
    ]


def gpu_cells(answer: Comparison, report: Report, place: int) -> list[Cell]:
    """Return the figures below GPU_COLUMNS, of the GPU in that place."""
    sequences, longest = most(report, report.fit[place])
    return [
        Cell(sequences, answer.wins(report, "sequences", place)),
        Cell(longest, answer.wins(report, "context", place)),
    ]


def compare_markdown(answer: Comparison) -> str:
    """Return the table; a model that could not be read has the reason in its last column."""
    gpus = gpus_of(answer)
    heading = ["model", *model_columns(answer)]
    for gpu in gpus:
        heading += [escape(gpu), *GPU_COLUMNS]
    rows = [_markdown_row(answer, row, len(heading)) for row in answer.rows]
    intro = f"Compared at {escape(workload_phrase(answer))}, the best in bold.\n\n"
    return intro + markdown_table((*heading, "warnings"), rows)


def _markdown_row(answer: Comparison, row: Row, width: int) -> list[str]:
    report = row.report
    if report is None:
        dashes = [NOTHING] * (width - 1)
        return [code(row.id), *dashes, f"**not read**: {escape(reason(row))}"]
    cells = [code(row.id), *(_bold(cell) for cell in model_cells(answer, report))]
    for place, fit in enumerate(report.fit):
        cells += [fits_phrase(fit), *(_bold(cell) for cell in gpu_cells(answer, report, place))]
    cells += [NOTHING] * (width - len(cells))
    return [*cells, " ".join(dict.fromkeys(code(finding.code) for finding in report.findings))]


def _bold(cell: Cell) -> str:
    return f"**{escape(cell.text)}**" if cell.best else escape(cell.text)
