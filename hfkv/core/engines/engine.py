"""What an engine is to the core: how it changes a store, and what it rounds.

An engine is handed an architecture's stores and answers with its own. It never sees
config.json; what is true of one model type only is looked up by that name in its file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hfkv.core.architecture import Architecture
from hfkv.core.stores import Layer, Store

__all__ = ["Engine", "as_needed"]


def as_needed(_arch: Architecture, _index: int, layer: Layer) -> tuple[Store, ...]:
    """Return a layer's stores unchanged: what the model needs, nothing more."""
    return layer.stores


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One engine. `adapt(architecture, layer index, layer)` returns what it really keeps.

    `serves_float32` says that a float32 checkpoint is computed in float32 (the serving
    engines cast it to 16 bit). `replicated_heads` says that KV heads are copied, not
    split, when there are fewer than ranks.
    """

    name: str
    adapt: Callable[[Architecture, int, Layer], tuple[Store, ...]] = as_needed
    serves_float32: bool = False
