"""Layers that are alike, as one row: what kind, how many, which, and what each keeps."""

from __future__ import annotations

from itertools import pairwise

from hfkv.core.record import dataclass
from hfkv.core.snapshots import format_ranges
from hfkv.core.stores import Fixed, Grows, Layer, Role
from hfkv.render.units import NOTHING, integer

__all__ = ["LayerGroup", "dims", "every", "group_layers", "heads", "places"]

_LONG = 30  # characters: a longer list of layers says less than "all others"
_SUFFIX = {1: "st", 2: "nd", 3: "rd"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGroup:
    """All layers of one kind that keep the same.

    Head counts and dims are None where the layers have none of their own: a latent vector
    is shared by all heads, a recurrent state is not a key. `elements_per_token` counts
    everything that grows with text, `fixed_elements` what does not. `widths` are key and
    value where tensors alone do not say how many heads share them.
    """

    kind: str
    indices: tuple[int, ...]
    num_key_value_heads: int | None
    head_dim: int | None
    v_head_dim: int | None
    window: int | None
    elements_per_token: int
    fixed_elements: int
    latent: tuple[int, ...] = ()
    widths: tuple[int, int] | None = None


def group_layers(layers: tuple[Layer, ...]) -> tuple[LayerGroup, ...]:
    """Return the distinct layers in order of first appearance."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for index, layer in enumerate(layers):
        alike.setdefault((layer.kind, layer.stores), []).append(index)
    return tuple(_group(layers[found[0]], tuple(found)) for found in alike.values())


def _group(layer: Layer, indices: tuple[int, ...]) -> LayerGroup:
    growing = [s for s in layer.stores if isinstance(s, Grows)]
    main = layer.attention or next(iter(growing), None)
    heads = main if main is not None and main.heads is not None else None
    whole = main if heads is None and main is not None and main.role is Role.KV else None
    text = [s for s in growing if s.role is not Role.CROSS]
    return LayerGroup(
        kind=str(layer.kind),
        indices=indices,
        num_key_value_heads=heads.heads if heads else None,
        head_dim=heads.key if heads else None,
        v_head_dim=heads.value if heads else None,
        window=main.window if main else None,
        elements_per_token=sum(s.elements for s in text),
        fixed_elements=sum(s.elements for s in layer.stores if isinstance(s, Fixed)),
        latent=tuple(s.elements for s in growing if s.heads is None and s is not whole),
        widths=(whole.key, whole.value) if whole else None,
    )


def heads(group: LayerGroup) -> str:
    """Return the key/value heads in words: `8`, `latent` where all heads share one vector."""
    if group.num_key_value_heads is not None:
        return integer(group.num_key_value_heads)
    return "latent" if group.latent else NOTHING


def dims(group: LayerGroup) -> str:
    """Return the width of a key and a value: `128`, `K 192, V 128`, `576 + 128`."""
    if group.widths is not None:
        return f"K {group.widths[0]}, V {group.widths[1]}"
    if group.num_key_value_heads is None:
        return " + ".join(integer(width) for width in group.latent) or NOTHING
    if group.head_dim == group.v_head_dim:
        return integer(group.head_dim or 0)
    return f"K {group.head_dim}, V {group.v_head_dim}"


def places(groups: tuple[LayerGroup, ...]) -> list[str]:
    """Return which layers each group has; a long list of the largest is `all others`."""
    largest = max(groups, key=lambda group: len(group.indices), default=None)
    said = [(group, every(group.indices)) for group in groups]
    return [
        "all others" if group is largest and len(which) > _LONG and len(groups) > 1 else which
        for group, which in said
    ]


def every(indices: tuple[int, ...]) -> str:
    """Return indices as `every 6th from 5 to 59` where they are evenly spread, else as runs."""
    runs = format_ranges(indices)
    if len(indices) < 4 or runs.count(",") < 3:
        return runs
    step = indices[1] - indices[0]
    if any(b - a != step for a, b in pairwise(indices)):
        return runs
    return f"every {_ordinal(step)} from {indices[0]} to {indices[-1]}"


def _ordinal(number: int) -> str:
    teen = 10 <= number % 100 <= 20
    return f"{number}{'th' if teen else _SUFFIX.get(number % 10, 'th')}"
