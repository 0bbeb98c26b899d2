"""The one look of everything in a terminal: no frames, quiet headings, aligned figures."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from hfkv.render.bars import ASCII
from hfkv.render.style import Style

__all__ = ["draw", "quiet", "table"]

# blanks at the end of a line, whether or not a style ends among them
_BLANKS = re.compile(r"(?: |\x1b\[[0-9;]*m)+$")


def table(*columns: str) -> Table:
    """Return an empty table; a column name that starts with `>` is aligned to the right."""
    made = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        right = name.startswith(">")
        made.add_column(
            Text(name.removeprefix(">")),
            justify="right" if right else "left",
            no_wrap=right,
            overflow="fold",
        )
    return made


def quiet(text: str) -> Text:
    """Return text that stands back."""
    return Text(text, style="dim")


def draw(blocks: Iterator[RenderableType], style: Style) -> str:
    """Return renderables as text, without trailing blanks, in the characters there are."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=style.width,
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
