"""A table where there is room for one, a list of records where there is not."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from hfkv.render.sheet import Sheet, table
from hfkv.render.style import Style
from hfkv.render.tables import draw, widest


def people() -> Sheet:
    """Return a sheet with every kind of column."""
    made = table("name", ">", ">tokens", "unit", "", "a note of some length")
    made.add_row("Müller", "12 %", "4,096", "text", "✔", "the first of two")
    made.add_row("日本語モデル", "1 %", "–", "", "", "the second")
    return made


def lines(sheet: Sheet, width: int) -> list[str]:
    """Return the sheet as drawn."""
    return draw(iter((sheet,)), Style(width=width)).splitlines()


def test_a_wide_terminal_gets_a_table() -> None:
    """Columns line up, a Japanese name counted as twelve cells."""
    assert lines(people(), 80) == [
        "name                tokens  unit     a note of some length",
        "Müller        12 %   4,096  text  ✔  the first of two",
        "日本語モデル   1 %       –           the second",
    ]


def test_a_narrow_terminal_gets_records() -> None:
    """One line says what it is about; a figure without a name belongs to the one before it."""
    assert lines(people(), 36) == [
        "Müller  12 %",
        "  tokens                 4,096",
        "  unit                   text  ✔",
        "  a note of some length  the first",
        "  of two",
        "日本語モデル  1 %",
        "  a note of some length  the second",
    ]


@pytest.mark.parametrize("width", range(20, 80))
def test_no_width_tears_a_figure(width: int) -> None:
    """Whatever the width, a number is on one line and no line is too long."""
    shown = lines(people(), width)
    assert max(map(cell_len, shown)) <= width
    assert any("4,096" in line for line in shown)


def test_nothing_above_a_table_without_names() -> None:
    """A legend has no heading."""
    legend = table("", ">")
    legend.add_row("weights", "15.0 GiB")
    assert lines(legend, 40) == ["weights  15.0 GiB"]


def test_the_first_variant_with_room_is_taken() -> None:
    """Else the last one, which is the one that takes the least."""
    small = table("name")
    small.add_row("x")
    assert widest((people(), small), 80).columns == people().columns
    assert widest((people(), small), 40) is small
    assert widest((people(),), 10).columns == people().columns
