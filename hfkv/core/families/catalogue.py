"""The list of what is known: every model type, the kinds of its layers, and who says so."""

from __future__ import annotations

from hfkv.core.config import Config, class_defaults
from hfkv.core.families.family import Family, read_layers
from hfkv.core.families.registry import FAMILIES, family_of
from hfkv.core.record import dataclass
from hfkv.errors import UnsupportedError

__all__ = ["FamilyEntry", "catalogue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyEntry:
    """One family: its model types, the kinds of layers they have by default, and the source."""

    name: str
    model_types: tuple[str, ...]
    kinds: tuple[str, ...]
    source: str


def _default_kinds(model_type: str, family: Family | None) -> frozenset[str]:
    """Return the layer kinds of a class's own default model; none where it has no defaults."""
    if model_type not in class_defaults():
        return frozenset()
    cfg = Config({}, model_type=model_type)
    if family is not None and family.aliases:
        cfg = cfg.spelled(family.aliases)
    try:
        return frozenset(layer.kind.value for layer in read_layers(cfg, family))
    except UnsupportedError:
        return frozenset()


def _row(family: Family) -> FamilyEntry:
    kinds = frozenset(kind.value for kind in family.layer_kinds)
    for model_type in family.model_types:
        kinds |= _default_kinds(model_type, family)
    return FamilyEntry(
        name=family.name,
        model_types=tuple(sorted(family.model_types)),
        kinds=tuple(sorted(kinds)),
        source=family.source,
    )


def _generic() -> list[FamilyEntry]:
    """Return the classes that need no row, grouped by the kinds of their layers."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for model_type, entry in class_defaults().items():
        if family_of(model_type) is not None or entry.get("parts"):
            continue
        kinds = tuple(sorted(_default_kinds(model_type, None)))
        if kinds:
            groups.setdefault(kinds, []).append(model_type)
    return [
        FamilyEntry(
            name="generic, " + " + ".join(kinds),
            model_types=tuple(sorted(types)),
            kinds=kinds,
            source="transformers 5.24 config classes, read the generic way",
        )
        for kinds, types in sorted(groups.items())
    ]


def _wrappers() -> FamilyEntry:
    """Return the composite classes, which are read by what they nest."""
    types = sorted(name for name, entry in class_defaults().items() if entry.get("parts"))
    return FamilyEntry(
        name="composite",
        model_types=tuple(types),
        kinds=("as nested",),
        source="transformers 5.24 config classes: the nested decoder decides",
    )


def catalogue() -> tuple[FamilyEntry, ...]:
    """Return every family that hfkv knows, rows first."""
    return (*(_row(family) for family in FAMILIES), *_generic(), _wrappers())
