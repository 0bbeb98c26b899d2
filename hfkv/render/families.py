"""The families that are known, as a document, as Markdown and as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hfkv.core.families.catalogue import FamilyEntry
from hfkv.render.rows import code, escape, markdown_table, write_csv

__all__ = ["families_csv", "families_document", "families_markdown", "kinds_phrase"]


def families_document(families: Sequence[FamilyEntry]) -> dict[str, Any]:
    """Return the `hfkv.families/1` document."""
    return {
        "schema": "hfkv.families/1",
        "families": [
            {
                "name": family.name,
                "model_types": list(family.model_types),
                "kinds": list(family.kinds),
                "source": family.source,
            }
            for family in families
        ],
    }


def kinds_phrase(family: FamilyEntry) -> str:
    """Return the kinds of layers in words."""
    return ", ".join(kind.replace("_", " ") for kind in family.kinds)


def families_markdown(families: Sequence[FamilyEntry]) -> str:
    """Return one row a family: its model types, its kinds of layers, and its source."""
    rows = (
        (
            ", ".join(code(model_type) for model_type in family.model_types),
            kinds_phrase(family),
            escape(family.source),
        )
        for family in families
    )
    return markdown_table(("`model_type`", "layers", "source"), rows)


def families_csv(families: Sequence[FamilyEntry]) -> str:
    """Return one row a family, its lists with spaces between."""
    rows = (
        (family.name, " ".join(family.model_types), " ".join(family.kinds), family.source)
        for family in families
    )
    return write_csv(("name", "model_types", "kinds", "source"), rows)
