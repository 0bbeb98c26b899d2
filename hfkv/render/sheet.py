"""Rows that are a table where there is room for one.

Where there is not, the first cell of each row gets a line of its own; where even that is too
wide, each row becomes a record of one line a figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from sys import maxsize

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hfkv.render.units import NOTHING

__all__ = ["Sheet", "quiet", "table"]

_GAP = 2
_MANY = 4  # columns from which a row is worth two lines
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
        elif self._stacked_need() <= options.max_width:
            yield from self._stacked()
        else:
            yield from self._records()

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        natural = console.measure(self._table(), options=options).maximum
        return Measurement(min(self.need(), natural), natural)

    def _stacked_need(self) -> int:
        """Return the columns that are needed when the first cell has a line of its own."""
        if len(self.columns) < _MANY or self.columns[0].startswith(">"):
            return maxsize
        return sum(width + _GAP for width in self._widths())

    def _widths(self) -> list[int]:
        """Return the natural widths of all columns but the first."""
        return [max(map(cell_len, _lines(*column))) for column in [*self._by_column()][1:]]

    def _stacked(self) -> Iterator[RenderableType]:
        names = [Text(name.removeprefix(">"), style="dim") for name in self.columns[1:]]
        yield self._line(names)
        for title, *cells in self.rows:
            yield title
            yield self._line(cells)

    def _line(self, cells: Sequence[Text]) -> Padding:
        line = Table(box=None, show_header=False, pad_edge=False, padding=(0, _GAP, 0, 0))
        for name, width in zip(self.columns[1:], self._widths(), strict=True):
            line.add_column(width=width, justify="right" if name.startswith(">") else "left")
        line.add_row(*cells)
        return Padding(line, (0, 0, 0, _GAP))

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
                named = bool(name.removeprefix(">"))
                if not cell.plain or (named and cell.plain == NOTHING):
                    continue
                if named:
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
    lines = _lines(name, cells)
    natural = max(map(cell_len, lines))
    if name.startswith(">"):
        return natural
    longest_word = max((cell_len(word) for line in lines for word in line.split()), default=0)
    return max(longest_word, min(natural, _READABLE))


def _lines(name: str, cells: tuple[Text, ...]) -> list[str]:
    """Return everything that is written in a column, line by line."""
    return [name.removeprefix(">"), *(line for cell in cells for line in cell.plain.split("\n"))]


def table(*columns: str) -> Sheet:
    """Return an empty sheet; a column name that starts with `>` is aligned to the right."""
    return Sheet(columns)


def quiet(text: str) -> Text:
    """Return text that stands back."""
    return Text(text, style="dim")
