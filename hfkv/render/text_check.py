"""Checks for a person at a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hfkv.core.checks import Check, Status, Verdicts
from hfkv.render.check import sentence, summary
from hfkv.render.phrases import Verdict, model_phrase
from hfkv.render.style import Style
from hfkv.render.tables import draw, section, verdict_line
from hfkv.render.text_memory import memory_section
from hfkv.render.units import clean

__all__ = ["check_text"]

_MARKS = {
    Status.PASS: ("✔", "green"),
    Status.WARN: ("▲", "yellow"),
    Status.FAIL: ("✘", "red"),
    Status.SKIPPED: ("–", "dim"),
}


def check_text(answer: Verdicts, style: Style) -> str:
    """Return the outcome, a line a check, and the memory of the GPUs that were named."""
    return draw(_blocks(answer, style.width), style)


def _blocks(answer: Verdicts, width: int) -> Iterator[RenderableType]:
    report = answer.case.report
    yield Text(clean(answer.name), style="bold")
    if report is not None:
        yield Text(model_phrase(report), style="dim")
    yield ""
    feeling = Verdict.FITS if answer.passed else Verdict.SHORT
    outcome = "Passed" if answer.passed else "Not passed"
    yield verdict_line(feeling, f"{outcome}. {summary(answer)}.")
    yield ""
    yield _table(answer)
    if report is not None and report.fit:
        yield from section("What it takes", memory_section(report, width))


def _table(answer: Verdicts) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for check in answer.checks:
        mark, style = _MARKS[check.status]
        grid.add_row(Text(mark, style=style), f"{check.id} ", _found(check))
    return grid


def _found(check: Check) -> Text:
    skipped = check.status is Status.SKIPPED
    text = Text(clean(sentence(check), 1000), style="dim" if skipped else "")
    if check.hint and check.status is not Status.PASS:
        text.append(f"\n→ {clean(check.hint, 1000)}", style="dim")
    return text
