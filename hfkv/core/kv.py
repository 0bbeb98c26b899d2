"""Architecture x Workload x Engine → KVReport."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Component", "KVReport", "PerGpu", "SimpleFormula"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One kind of store, summed over the layers that hold it alike, for one sequence.

    `growth` is token, window, chunk, ratio, fixed or source; `limit` the window, chunk,
    ratio or source length; `slots` entries of `bytes_per_slot` in each of `layers` layers.
    `shards_by_heads` is what tensor parallelism may split (None: every rank keeps it all).
    """

    name: str
    layers: int
    growth: str
    limit: int | None
    elements_per_slot: int
    dtype: str
    bytes_per_slot: int
    slots: int
    bytes: int
    shards_by_heads: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleFormula:
    """2·L·Hkv·D·T·B·S beside the truth; `why_not` are sentences."""

    applies: bool
    bytes: int | None
    why_not: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PerGpu:
    """Bytes of one sequence on one rank: needed, reserved at start-up, held while decoding."""

    ideal_bytes_per_sequence: int
    admission_bytes_per_sequence: int
    steady_bytes_per_sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KVReport:
    """The cache of `sequences` sequences of `tokens` tokens, in bytes.

    `bytes_per_token` is what one more token costs a sequence that is already `tokens` long;
    `fixed_bytes_per_sequence` is what a sequence costs whatever its length.
    """

    tokens: int
    sequences: int
    dtype: str | None
    dtype_source: str
    engine: str
    bytes: int
    bytes_per_sequence: int
    bytes_per_token: int
    fixed_bytes_per_sequence: int
    components: tuple[Component, ...]
    simple_formula: SimpleFormula
    per_gpu: PerGpu
