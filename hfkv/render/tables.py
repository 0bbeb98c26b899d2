"""The one look of everything in a terminal: no frames, quiet headings, aligned figures."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from hfkv.render.bars import ASCII
from hfkv.render.phrases import MARKS, Verdict
from hfkv.render.sheet import Sheet
from hfkv.render.style import Style

__all__ = ["draw", "section", "verdict_line", "widest"]

_STYLES = {
    Verdict.FITS: "bold green",
    Verdict.TIGHT: "bold yellow",
    Verdict.SHORT: "bold red",
    Verdict.NEEDS: "bold cyan",
    Verdict.UNKNOWN: "bold yellow",
}

# blanks at the end of a line, whether or not a style ends among them
_BLANKS = re.compile(r"(?: |\x1b\[[0-9;]*m)+$")


_HEIGHT = 25  # limits nothing that is shown; with no height rich asks $COLUMNS once more


def section(title: str, blocks: Iterable[RenderableType]) -> Iterator[RenderableType]:
    """Yield the title and its indented blocks, nothing at all where there are none."""
    shown = list(blocks)
    if shown:
        yield ""
        yield Text(title, style="bold")
        yield from (Padding(block, (0, 0, 0, 2)) for block in shown)


def verdict_line(feeling: Verdict, sentence: str) -> Text:
    """Return the answer with the mark and the colour of how it feels."""
    return Text(f"{MARKS[feeling]} {sentence}", style=_STYLES[feeling])


def widest(variants: Sequence[Sheet], width: int) -> Sheet:
    """Return the first variant that needs no wrapping at this width, else the last one."""
    console = Console(width=10_000, file=io.StringIO())
    fitting = (one for one in variants if console.measure(one).maximum <= width)
    return next(fitting, variants[-1])


def draw(blocks: Iterator[RenderableType], style: Style) -> str:
    """Return renderables as text, without trailing blanks, in the characters there are."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=style.width,
        height=_HEIGHT,
        force_terminal=style.color,
        no_color=not style.color,
        color_system="standard" if style.color else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    for block in blocks:
        console.print(block)
    lines = out.getvalue() if style.unicode else out.getvalue().translate(ASCII)
    return "".join(f"{_BLANKS.sub(_styles_only, line)}\n" for line in lines.splitlines())


def _styles_only(match: re.Match[str]) -> str:
    return match[0].replace(" ", "")
