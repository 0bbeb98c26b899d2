"""The calculator's answer for a person at a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from hfkv.core.account import Account
from hfkv.core.calculator import Step
from hfkv.core.counts import counted
from hfkv.render.bars import EMPTY, KV, Part, bar
from hfkv.render.kv import (
    factor,
    headline,
    in_use_phrase,
    most,
    structure_phrase,
)
from hfkv.render.phrases import Verdict, verdict
from hfkv.render.sheet import Sheet, quiet, table
from hfkv.render.style import Style
from hfkv.render.tables import draw, section, verdict_line, widest
from hfkv.render.text_cache import cache_section
from hfkv.render.text_memory import memory_section
from hfkv.render.units import NOTHING, integer, size, sizes

__all__ = ["kv_text"]

# Columns from which the savings have room for a text beside them, a bar, a long bar.
_NARROW, _BARS, _WIDE = 60, 74, 106


def kv_text(answer: Account, style: Style) -> str:
    """Return the answer, why it is so, the table, and the savings one after the other."""
    return draw(_sections(answer, style.width), style)


def _sections(answer: Account, width: int) -> Iterator[RenderableType]:
    report = answer.report
    yield Text(structure_phrase(answer.structure), style="bold")
    yield ""
    weighed = report.weights is not None or bool(report.fit)
    feeling, sentence = verdict(report) if weighed else (Verdict.NEEDS, headline(answer))
    yield verdict_line(feeling, sentence)
    if used := in_use_phrase(answer):
        yield Text(used)
    yield from section("What it takes", memory_section(report, width) if weighed else ())
    yield from section("Why", cache_section(report))
    yield from section("Contexts and batches", _grid(answer, width - 2))
    yield from section("What saves", _ladder(answer, width - 2))


def _grid(answer: Account, width: int) -> Iterator[RenderableType]:
    if len(answer.grid) > 1:
        yield widest((_matrix(answer), _list(answer)), width)


def _matrix(answer: Account) -> Sheet:
    tokens = dict.fromkeys(cell.tokens for cell in answer.grid)
    sequences = dict.fromkeys(cell.sequences for cell in answer.grid)
    bytes_of = {(cell.tokens, cell.sequences): cell.bytes for cell in answer.grid}
    gpus = [f">most on {name}" for name, _ in most(answer, next(iter(tokens)))]
    grid = table(">tokens", *(f">{counted(n, 'sequence')}" for n in sequences), *gpus)
    for t in tokens:
        held = (integer(n) for _, n in most(answer, t))
        grid.add_row(integer(t), *(size(bytes_of[t, n]) for n in sequences), *held)
    return grid


def _list(answer: Account) -> Sheet:
    """Return one line a cell, for a terminal that is too narrow for the matrix."""
    grid = table("tokens × sequences", ">cache", "at most")
    for cell in answer.grid:
        held = ", ".join(f"{integer(n)} on {name}" for name, n in most(answer, cell.tokens))
        work = f"{integer(cell.tokens)} × {integer(cell.sequences)}"
        grid.add_row(work, size(cell.bytes), held or NOTHING)
    return grid


def _ladder(answer: Account, width: int) -> Iterator[RenderableType]:
    """Yield the savings; where there is room, each with a bar."""
    steps = answer.ladder
    used = [used for step in steps if (used := answer.used(step.bytes)) is not None]
    narrow, room = width < _NARROW, width - (11 if used else 0)
    drawn = 24 if room >= _WIDE else 12 if room >= _BARS else 0
    beside = [] if narrow else ["what it leaves open"]
    columns = ["", *beside] if drawn else beside
    grid = table("step", ">cache", *([">in use"] if used else []), ">factor", *columns)
    held = [[text] for text in sizes(used)] if used else [[]] * len(steps)
    largest = max(step.bytes for step in steps)
    for step, cache, in_use in zip(steps, sizes([s.bytes for s in steps]), held, strict=True):
        name = Text(step.step)
        if narrow:
            name.append(f"\n{step.leaves_open}", style="dim")
        row = [_bar(step, largest, drawn)] if drawn else []
        row += [] if narrow else [quiet(step.leaves_open)]
        grid.add_row(name, cache, *in_use, factor(step), *row)
    yield grid


def _bar(step: Step, largest: int, width: int) -> Text:
    rest = Part(name="", bytes=largest - step.bytes, look=EMPTY)
    return bar((Part(name="", bytes=step.bytes, look=KV), rest), width)
