"""The families that are known, for a person at a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from hfkv.core.counts import counted
from hfkv.core.families.catalogue import FamilyEntry
from hfkv.render.families import kinds_phrase
from hfkv.render.sheet import quiet
from hfkv.render.style import Style
from hfkv.render.tables import draw
from hfkv.render.units import integer

__all__ = ["families_text"]


def families_text(families: Sequence[FamilyEntry], style: Style) -> str:
    """Return the families, each with its layers, its model types and its source."""
    return draw(_blocks(families), style)


def _blocks(families: Sequence[FamilyEntry]) -> Iterator[RenderableType]:
    for family in families:
        # a generic row is named after its layers, which follow anyway
        name = family.name.partition(",")[0]
        yield Text(name, style="bold").append(f"  {kinds_phrase(family)}", style="not bold")
        types = () if family.model_types == (name,) else (", ".join(family.model_types),)
        lines = Text("\n").join((*(Text(line) for line in types), quiet(family.source)))
        yield Padding(lines, (0, 0, 0, 2))
    if len(families) > 1:
        known = sum(len(family.model_types) for family in families)
        yield ""
        yield quiet(f"{integer(known)} model types in {counted(len(families), 'row')}")
