"""HTML that cannot be broken by what is put into it: every plain string is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable

from hfkv.render.units import clean

__all__ = ["Html", "el", "join", "section", "table"]

_LIMIT = 4000  # characters of one foreign text
_VOID = frozenset({"br", "input", "meta"})


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | Html | None


def el(tag: str, *children: Child, **attributes: str | int | bool | None) -> Html:
    """Return one element; `class_` and `data_x` are the attributes class and data-x.

    A child that is not `Html` is foreign: control characters are written out, markup is
    escaped. None leaves a child or an attribute out, True is an attribute without a value.
    """
    start = f"<{tag}{''.join(_attribute(name, value) for name, value in attributes.items())}>"
    return Html(start if tag in _VOID else f"{start}{join(*children)}</{tag}>")


def join(*children: Child) -> Html:
    """Return children one after the other."""
    return Html("".join(_child(child) for child in children if child is not None))


def section(title: str, level: int, *children: Child) -> Html:
    """Return a card with a heading."""
    return el("section", el(f"h{level}", title), *children, class_="card")


def table(heading: Iterable[str], rows: Iterable[Iterable[Child]], caption: str) -> Html:
    """Return a table that scrolls by itself; a heading that starts with `>` is of figures."""
    names = list(heading)
    looks = ["figure" if name.startswith(">") else None for name in names]
    head = [
        el("th", name.removeprefix(">"), scope="col", class_=look)
        for name, look in zip(names, looks, strict=True)
    ]
    body = [
        el("tr", *(el("td", cell, class_=look) for cell, look in zip(row, looks, strict=True)))
        for row in rows
    ]
    inside = el(
        "table",
        el("caption", caption),
        el("thead", el("tr", *head)),
        el("tbody", *body),
    )
    return el("div", inside, class_="scroll", tabindex=0, role="group", aria_label=caption)


def _child(child: str) -> str:
    return child if isinstance(child, Html) else html.escape(clean(child, _LIMIT))


def _attribute(name: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    shown = name.rstrip("_").replace("_", "-")
    return f" {shown}" if value is True else f' {shown}="{_child(str(value))}"'
