"""Tensor names → templates: names that differ only in their numbers become one group.

`model.layers.3.mlp.experts.17.up_proj.weight` is `model.layers.{}.mlp.experts.{}.up_proj.weight`:
the 92,000 tensors of a large mixture of experts become forty groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from hfkv.core.files import TensorGroup
from hfkv.core.record import replace
from hfkv.errors import MalformedError

__all__ = ["MAX_GROUPS", "Row", "check_groups", "group_rows", "merge_groups", "template"]

# Models have some dozens; those that write an expert's number inside a word (`expert_17`) have
# up to 8,192 (google/switch-c-2048).
MAX_GROUPS = 50_000

# begin, end, name, dtype, shape: a plain tuple, because a model can have 500,000 of them
Row = tuple[int, int, str, str, tuple[int, ...]]

# a whole component of ASCII digits, short enough to be an index
_NUMBER = re.compile(r"(?<![^.])[0-9]{1,9}(?![^.])")
_DIGITS = bytes.maketrans(b"123456789", b"000000000")


def template(name: str) -> tuple[str, int | None]:
    """Return a tensor's name with every numeric component as `{}`, and the first number.

    >>> template("model.layers.3.mlp.experts.17.up_proj.weight")
    ('model.layers.{}.mlp.experts.{}.up_proj.weight', 3)
    """
    first = _NUMBER.search(name)
    return _NUMBER.sub("{}", name), int(first[0]) if first else None


def check_groups(count: int, *, where: str | None) -> None:
    """Raise MalformedError for more groups than any model has: each is looked at many times."""
    if count > MAX_GROUPS:
        raise MalformedError(
            f"its tensors have more than {MAX_GROUPS:,} different names and shapes, "
            "not counting numbers in names",
            where=where,
            hint="no model is known to have a fifth as many",
        )


def merge_groups(
    parts: Iterable[tuple[TensorGroup, ...]], *, where: str | None = None
) -> tuple[TensorGroup, ...]:
    """Return the groups of several files as one list: same template, dtype and shape are one.

    Raises MalformedError for more than MAX_GROUPS, named by `where`.
    """
    merged: dict[tuple[Any, ...], list[TensorGroup]] = {}
    for part in parts:
        for group in part:
            key = (group.name, group.dtype, group.shape, group.nbytes)
            merged.setdefault(key, []).append(group)
        check_groups(len(merged), where=where)
    return tuple(
        groups[0] if len(groups) == 1 else _merged(groups) for _, groups in sorted(merged.items())
    )


def _merged(groups: list[TensorGroup]) -> TensorGroup:
    return replace(
        groups[0],
        count=sum(group.count for group in groups),
        layers=tuple(sorted({layer for group in groups for layer in group.layers})),
    )


def group_rows(rows: list[Row], *, where: str | None = None) -> tuple[TensorGroup, ...]:
    """Return the tensors of one file by template, sorted; raises as `merge_groups` does."""
    # Names that are equal but for their digits mostly share a template: one look for them all.
    alike: dict[tuple[bytes, str, tuple[int, ...], int], list[str]] = {}
    for begin, end, name, dtype, shape in rows:
        key = (name.encode().translate(_DIGITS), dtype, shape, end - begin)
        if key in alike:
            alike[key].append(name)
        else:
            alike[key] = [name]
    found = (
        tuple(
            TensorGroup(
                name=pattern, dtype=dtype, shape=shape, nbytes=nbytes, count=count, layers=layers
            )
            for pattern, count, layers in _templates(names)
        )
        for (_, dtype, shape, nbytes), names in alike.items()
    )
    return merge_groups(found, where=where)


def _templates(names: list[str]) -> list[tuple[str, int, tuple[int, ...]]]:
    """Return (template, count, layers) of names that differ only in the values of digits."""
    pattern, _ = template(names[0])
    if not any(char.isdigit() for char in pattern):
        number = _NUMBER.search(names[0])
        layers = {int(name[slice(*number.span())]) for name in names} if number else ()
        return [(pattern, len(names), tuple(sorted(layers)))]
    return [
        (pattern, 1, () if first is None else (first,)) for pattern, first in map(template, names)
    ]
