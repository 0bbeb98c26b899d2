"""Rows as CSV and as Markdown, whatever they are about."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable

from hfkv.render.units import clean

__all__ = ["code", "escape", "markdown_table", "write_csv"]

_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#|~]")


def escape(text: str) -> str:
    """Return foreign text that Markdown shows as it is."""
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", clean(text, 1000))


def code(text: str) -> str:
    """Return foreign text as a code span that also holds inside a table."""
    return "`" + clean(text).replace("`", "'").replace("|", "\\|") + "`"


def markdown_table(heading: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table; a heading that starts with `>` is aligned to the right."""
    names = list(heading)
    rule = ["---:" if name.startswith(">") else "---" for name in names]
    lines = ([name.removeprefix(">") for name in names], rule, *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_csv(heading: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return rows as CSV with Unix line ends; what is not known is left empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    text = clean(value)
    # a spreadsheet runs a cell that starts like this, and names come from strangers
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
