"""A report for a person at a terminal, in the order in which people ask.

Does it fit, what does it take, why, what to watch out for, where do the figures come from.
The only modules that know rich are this one, its `text_*` neighbours and `bars`.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from hfkv.core.report import Report
from hfkv.render.phrases import model_phrase, verdict
from hfkv.render.style import Style
from hfkv.render.tables import draw, section, verdict_line
from hfkv.render.text_cache import cache_section
from hfkv.render.text_capacity import command_section
from hfkv.render.text_memory import memory_section
from hfkv.render.text_sources import findings_section, sources_section
from hfkv.render.text_speed import speed_section
from hfkv.render.units import clean

__all__ = ["inspect_text"]


def inspect_text(
    report: Report, style: Style, *, explain: bool = False, speed: bool = False
) -> str:
    """Return the whole report as lines no wider than the terminal."""
    return draw(_sections(report, style.width, explain=explain, speed=speed), style)


def _sections(
    report: Report, width: int, *, explain: bool, speed: bool
) -> Iterator[RenderableType]:
    yield _title(report)
    yield Text(model_phrase(report), style="dim")
    yield ""
    yield verdict_line(*verdict(report))
    yield from section("What it takes", memory_section(report, width))
    for fit in report.fit if len(report.fit) == 1 else ():
        yield from section("To start it", command_section(fit, width - 2))
    if speed:
        yield from section("How fast at most", speed_section(report))
    yield from section("Why", cache_section(report))
    yield from section("Watch out for", findings_section(report))
    sources = sources_section(report, width - 2, explain=explain)
    yield from section("Where the figures come from", sources)


def _title(report: Report) -> Text:
    target = report.files.target
    title = Text(clean(target.id), style="bold")
    kind = target.kind if target.kind != "hub" else None
    version = " ".join(
        clean(part) for part in (kind, target.revision, target.sha and target.sha[:12]) if part
    )
    if version:
        title.append(f"  {version}", style="dim")
    return title
