"""What an engine is to the core: how it changes a store, and what it rounds.

An engine is handed an architecture's stores and answers with its own. It never sees
config.json; what is true of one model type only is looked up by that name in its file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hfkv.core.architecture import Architecture
from hfkv.core.dtypes import DType
from hfkv.core.stores import Fixed, Layer, Store
from hfkv.core.workload import Workload

__all__ = ["Engine", "Formats", "PerGpu", "as_needed", "entries", "text_type"]


class Formats(Protocol):
    """Which number format each store is kept in (`hfkv.core.precision.Precision`)."""

    @property
    def cache(self) -> DType:
        """Return the format of the cache."""

    def of(self, store: Store) -> DType:
        """Return the format of one store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerGpu:
    """Bytes of one sequence on one rank: needed, reserved at start-up, held while decoding."""

    ideal_bytes_per_sequence: int
    admission_bytes_per_sequence: int
    steady_bytes_per_sequence: int


def text_type(arch: Architecture) -> str:
    """Return the decoder's own model type."""
    return arch.text_model_type or arch.model_type or ""


def as_needed(_arch: Architecture, _index: int, layer: Layer) -> tuple[Store, ...]:
    """Return a layer's stores unchanged: what the model needs, nothing more."""
    return layer.stores


def as_adapted(_layer: Layer, stores: tuple[Store, ...], _cache: DType) -> tuple[Store, ...]:
    """Return stores unchanged: the cache's format has no layout of its own."""
    return stores


def entries(store: Store, tokens: int, _workload: Workload) -> int:
    """Return how many entries a sequence of `tokens` needs: one of what is fixed."""
    return 1 if isinstance(store, Fixed) else store.slots(tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One engine. `adapt(architecture, layer index, layer)` returns what it really keeps.

    `pack(layer, stores, cache format)` returns stores that the format lays out in a way of
    its own; `slots(store, tokens, workload)` says how many entries are allocated for a
    sequence, and `period` after how many tokens its rounding repeats.
    `serves_float32` says that a float32 checkpoint is computed in float32 (the serving
    engines cast it to 16 bit). `cache_dtype` is the format of the cache where the user
    names none (None: what the checkpoint declares, else its compute dtype); `cache_dtypes`
    are the formats there are (empty: not known), `small_dtype` the one of 8 bits.
    `splits_layers` says that several GPUs share the layers, not the heads, `embeds_on_host`
    that the input embedding stays with the host. `per_gpu` reports
    one sequence of so many tokens on one rank, where blocks, reserves and padding make that
    more than the sum of its stores.
    """

    name: str
    adapt: Callable[[Architecture, int, Layer], tuple[Store, ...]] = as_needed
    pack: Callable[[Layer, tuple[Store, ...], DType], tuple[Store, ...]] = as_adapted
    slots: Callable[[Store, int, Workload], int] = entries
    period: int = 1
    serves_float32: bool = False
    cache_dtype: str | None = None
    cache_dtypes: tuple[str, ...] = ()
    small_dtype: str = "fp8"
    splits_layers: bool = False
    embeds_on_host: bool = False
    per_gpu: Callable[[Architecture, Workload, Formats, int], PerGpu] | None = None
