"""WeightReport + KVReport + GPU → FitReport: what is left for the cache, and how far it goes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FitReport", "OverheadPart", "WayToFit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverheadPart:
    """One estimated part of what is neither weights nor cache, in bytes per GPU."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WayToFit:
    """One change and what it frees per GPU."""

    change: str
    frees_bytes: int
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FitReport:
    """One GPU choice: budget = memory x utilization; pool = budget - weights - overhead.

    All byte figures are per GPU. `max_sequences` at the asked context; `max_context` of one
    sequence; `max_tokens` in the whole pool at the asked context. `short_by_bytes` is 0
    when it fits. `overhead_parts` is empty when the user stated the overhead.
    """

    gpu: str
    name: str
    count: int
    tensor_parallel_size: int
    pipeline_parallel_size: int
    memory_bytes: int
    memory_source: str
    utilization: tuple[int, int]
    budget_bytes: int
    weights_bytes_per_gpu: int
    overhead_bytes_per_gpu: int
    overhead_parts: tuple[OverheadPart, ...]
    kv_pool_bytes_per_gpu: int
    kv_bytes_per_sequence_per_gpu: int
    fits: bool
    short_by_bytes: int
    max_sequences: int
    max_context: int
    max_tokens: int
    simple_formula_max_sequences: int | None
    ways_to_fit: tuple[WayToFit, ...] = ()
    notes: tuple[str, ...] = ()
