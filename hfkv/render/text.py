"""A report for a person at a terminal, in the order in which people ask.

Does it fit, what does it take, why, what to watch out for, where do the figures come from.
The only modules that know rich are this one, its `text_*` neighbours and `bars`.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from hfkv.core.report import Report
from hfkv.render.phrases import Verdict, model_phrase, verdict
from hfkv.render.style import Style
from hfkv.render.tables import draw
from hfkv.render.text_cache import cache_section
from hfkv.render.text_memory import memory_section
from hfkv.render.text_sources import findings_section, sources_section
from hfkv.render.units import clean

__all__ = ["inspect_text"]

_MARKS = {
    Verdict.FITS: ("✔", "bold green"),
    Verdict.SHORT: ("✘", "bold red"),
    Verdict.NEEDS: ("●", "bold cyan"),
    Verdict.UNKNOWN: ("?", "bold yellow"),
}


def inspect_text(report: Report, style: Style, *, explain: bool = False) -> str:
    """Return the whole report as lines no wider than the terminal."""
    return draw(_sections(report, style.width, explain=explain), style)


def _sections(report: Report, width: int, *, explain: bool) -> Iterator[RenderableType]:
    yield _title(report)
    yield Text(model_phrase(report), style="dim")
    yield ""
    yield _verdict(report)
    for title, blocks in (
        ("What it takes", memory_section(report, width)),
        ("Why", cache_section(report)),
        ("Watch out for", findings_section(report)),
        ("Where the figures come from", sources_section(report, explain=explain)),
    ):
        shown = list(blocks)
        if shown:
            yield ""
            yield Text(title, style="bold")
            yield from (Padding(block, (0, 0, 0, 2)) for block in shown)


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


def _verdict(report: Report) -> Text:
    feeling, sentence = verdict(report)
    mark, style = _MARKS[feeling]
    return Text(f"{mark} {sentence}", style=style)
