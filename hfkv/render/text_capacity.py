"""How far what is left of a GPU goes: sequences, contexts, plans, and what would help."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hfkv.core.counts import counted
from hfkv.core.report import Report
from hfkv.render.limits import engine_figures
from hfkv.render.phrases import most, plan_phrase
from hfkv.render.sheet import Sheet, quiet, table
from hfkv.render.tables import widest
from hfkv.render.units import clean, integer, size, size_or_none, tokens

if TYPE_CHECKING:
    from hfkv.core.answers import ContextRow
    from hfkv.core.fit import FitReport
    from hfkv.core.plans import Plan

__all__ = ["capacity", "command_section"]

_NEAR = 100  # a figure within one part in so many is the same, said by other means


def capacity(report: Report, fit: FitReport, width: int) -> Iterator[RenderableType]:
    """Yield what one GPU choice holds, how several share the model, and ways to fit."""
    if fit.kv_pool_bytes_per_gpu == 0:
        yield Text("Weights and overhead leave nothing for a cache.")
    else:
        yield _figures(report, fit)
        if fit.answers is not None and fit.kv_bytes_per_sequence_per_gpu:
            yield from _contexts(fit.answers.contexts, width)
    if len(fit.plans) > 1:
        yield ""
        yield _plans(fit.plans)
        yield from _recommended(fit.plans)
    if fit.ways_to_fit:
        yield ""
        yield _ways(fit)


def _figures(report: Report, fit: FitReport) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    grid.add_row("left for the cache", _pool(fit))
    if fit.kv_bytes_per_sequence_per_gpu:
        grid.add_row("sequences like this", _sequences(fit))
        single = "request" if report.workload.beams > 1 else "sequence"
        grid.add_row(f"longest single {single}", _longest(report, fit))
        if report.kv is None or report.kv.bytes_per_token:
            grid.add_row("tokens in all", _tokens(fit))
    if fit.answers is not None:
        for name, text in engine_figures(report.workload.engine, fit.answers):
            grid.add_row(name, text)
    return grid


def _pool(fit: FitReport) -> Text:
    text = Text(size(fit.kv_pool_bytes_per_gpu))
    low, high = fit.kv_pool_low_bytes_per_gpu, fit.kv_pool_high_bytes_per_gpu
    if fit.overhead_parts and low < high:
        text.append(f"  ({size(low)} to {size(high)})", style="dim")
    return text


def _sequences(fit: FitReport) -> Text:
    return _beside(fit.max_sequences, fit.simple_formula_max_sequences)


def _beside(true: int, simple: int | None, unit: str = "") -> Text:
    """Return a figure, with what the simple formula says where that is something else.

    What blocks round off is not something else.
    """
    text = Text(integer(true) + unit)
    if simple is not None and abs(simple - true) * _NEAR > true:
        text.append(f"  (the simple formula would say {integer(simple)})", style="dim")
    return text


def _longest(report: Report, fit: FitReport) -> Text:
    if most(report, fit)[1] == "any":
        return Text("any").append("  (a longer one takes no more)", style="dim")
    if fit.max_context == report.architecture.max_context:
        text = Text(counted(fit.max_context, "token"))
        return text.append("  (the model's own maximum)", style="dim")
    simple = fit.answers.simple_formula_max_context if fit.answers else None
    return _beside(fit.max_context, simple, " tokens")


def _tokens(fit: FitReport) -> Text:
    return _beside(fit.max_tokens, fit.answers.simple_formula_max_tokens if fit.answers else None)


def _contexts(rows: tuple[ContextRow, ...], width: int) -> Iterator[RenderableType]:
    """Yield the sequences at each power of two, without the shortest where room is scarce."""
    if len({row.max_sequences for row in rows}) > 1:
        yield ""
        yield widest([_context_sheet(rows[first:]) for first in range(len(rows) - 1)], width - 2)


def _context_sheet(rows: tuple[ContextRow, ...]) -> Sheet:
    grid = table("tokens of each", *(f">{tokens(row.tokens)}" for row in rows))
    grid.add_row("sequences", *(integer(row.max_sequences) for row in rows))
    if any(row.simple_formula_max_sequences is not None for row in rows):
        simple = (quiet(integer(row.by_simple_formula)) for row in rows)
        grid.add_row(quiet("simple formula"), *simple)
    return grid


def _plans(plans: tuple[Plan, ...]) -> Sheet:
    grid = table("ways to share", ">weights", ">a sequence", ">of it copied", ">sequences", "")
    for plan in plans:
        grid.add_row(
            plan_phrase(plan),
            size_or_none(plan.weights_bytes_per_gpu),
            size(plan.kv_bytes_per_sequence_per_gpu),
            size(plan.copied_kv_bytes_per_gpu) if plan.copied_kv_bytes_per_gpu else "",
            integer(plan.max_sequences),
            _chosen(plan),
        )
    return grid


def _chosen(plan: Plan) -> Text:
    short = quiet(f"{size(plan.short_by_bytes)} short") if plan.short_by_bytes else Text()
    if plan.recommended:
        return Text(" ").join((Text("★", style="green"), short)) if short else Text("★", "green")
    return short


def _recommended(plans: tuple[Plan, ...]) -> Iterator[RenderableType]:
    for plan in plans:
        if plan.recommended and plan.reason:
            yield quiet(f"★ {plan_phrase(plan)}: {clean(plan.reason)}")


def _ways(fit: FitReport) -> Sheet:
    grid = table("ways to fit", ">frees per GPU", "")
    for way in fit.ways_to_fit:
        enough = Text("fits", style="green") if way.fits else Text("not enough", style="dim")
        if way.estimate:
            enough.append(" (estimated)", style="dim")
        grid.add_row(clean(way.change), size(way.frees_bytes), enough)
    return grid


def command_section(fit: FitReport, width: int) -> Iterator[RenderableType]:
    """Yield the lines that start the engine, broken so that they can still be pasted."""
    for command in fit.commands:
        for line in _pasted(clean(command, 2000), width):
            yield Text(line, no_wrap=True, overflow="fold")


def _pasted(command: str, width: int) -> Iterator[str]:
    """Yield a command line in pieces that a backslash joins; no word is broken."""
    line = ""
    for word in _words(command):
        if line and len(line) + len(word) + 3 > width:
            yield f"{line} \\"
            line = f"  {word}"
        else:
            line = f"{line} {word}" if line else word
    yield line


def _words(command: str) -> Iterator[str]:
    """Yield the words of a command line, a flag together with its value."""
    lexer = shlex.shlex(command, posix=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    flag = ""
    for word in lexer:
        if flag and not word.startswith("-"):
            yield f"{flag} {word}"
            flag = ""
            continue
        if flag:
            yield flag
        flag = word if word.startswith("-") else ""
        if not flag:
            yield word
    if flag:
        yield flag
