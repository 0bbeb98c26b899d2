"""Rows that are a table where there is room for one, and a list of records where there is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hfkv.render.units import NOTHING

__all__ = ["Sheet", "quiet", "table"]

_GAP = 2
_READABLE = 16  # a column of words that is narrower than this is no longer read as a line


@dataclass(slots=True)
class Sheet:
    """Columns and their rows; a column name that starts with `>` is aligned to the right."""

    columns: tuple[str, ...]
    rows: list[tuple[Text, ...]] = field(default_factory=list)

    def add_row(self, *cells: Text | str) -> None:
        """Add one row of as many cells as there are columns."""
        assert len(cells) == len(self.columns)
        self.rows.append(tuple(Text(c) if isinstance(c, str) else c for c in cells))

    def need(self) -> int:
        """Return the columns of a terminal below which the table would be torn to pieces."""
        widths = (_least(name, cells) for name, cells in self._by_column())
        return sum(widths) + _GAP * (len(self.columns) - 1)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.need() <= options.max_width:
            yield self._table()
        else:
            yield from self._records()

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        natural = console.measure(self._table(), options=options).maximum
        return Measurement(min(self.need(), natural), natural)

    def _by_column(self) -> Iterator[tuple[str, tuple[Text, ...]]]:
        for index, name in enumerate(self.columns):
            yield name, tuple(row[index] for row in self.rows)

    def _table(self) -> Table:
        headed = any(name.strip(">") for name in self.columns)
        made = Table(
            box=None,
            header_style="dim",
            show_header=headed,
            pad_edge=False,
            padding=(0, _GAP, 0, 0),
        )
        for name in self.columns:
            right = name.startswith(">")
            made.add_column(
                Text(name.removeprefix(">")),
                justify="right" if right else "left",
                no_wrap=right,
                overflow="fold",
            )
        for row in self.rows:
            made.add_row(*row)
        return made

    def _records(self) -> Iterator[RenderableType]:
        """Yield each row as a line of what it is about and, under it, one line a figure."""
        first = next((i for i, name in enumerate(self.columns) if not name.startswith(">")), 0)
        rest = self.columns[first + 1 :]
        wide = max((cell_len(name.removeprefix(">")) for name in rest), default=0)
        for row in self.rows:
            title = [cell for cell in row[: first + 1] if cell.plain]
            under: list[Text] = []
            for name, cell in zip(rest, row[first + 1 :], strict=True):
                if cell.plain in ("", NOTHING):
                    continue
                if name.removeprefix(">"):
                    pair = Text(f"{name.removeprefix('>'):{wide}}  ", style="dim")
                    under.append(Text().join((pair, cell)))
                elif name == ">":
                    title.append(cell)
                elif under:  # what has no name of its own belongs to the figure before it
                    under[-1] = Text("  ").join((under[-1], cell))
                else:
                    under.append(cell)
            yield Text("  ").join(title)
            yield from (Padding(line, (0, 0, 0, _GAP)) for line in under)


def _least(name: str, cells: tuple[Text, ...]) -> int:
    right, heading = name.startswith(">"), name.removeprefix(">")
    lines = [heading, *(line for cell in cells for line in cell.plain.split("\n"))]
    natural = max(map(cell_len, lines))
    if right:
        return natural
    longest_word = max((cell_len(word) for line in lines for word in line.split()), default=0)
    return max(longest_word, min(natural, _READABLE))


def table(*columns: str) -> Sheet:
    """Return an empty sheet; a column name that starts with `>` is aligned to the right."""
    return Sheet(columns)


def quiet(text: str) -> Text:
    """Return text that stands back."""
    return Text(text, style="dim")
