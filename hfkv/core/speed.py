"""How fast decoding cannot be: what must be read for each token, over the memory's bandwidth.

A bound, never a prediction: kernels, exchange between GPUs, sampling and scheduling only
make it slower, and large batches meet the limit of arithmetic first. Whatever is doubtful is
left out of the bytes, so that the bound holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from hfkv.core.architecture import Architecture
from hfkv.core.engines.registry import engine_named
from hfkv.core.gpus import row_of
from hfkv.core.precision import Precision
from hfkv.core.ranks import Sizer, sizer_of
from hfkv.core.record import dataclass
from hfkv.core.stores import Fixed, Layer, Role, Store
from hfkv.core.weights import WeightReport
from hfkv.core.workload import Workload

__all__ = ["SpeedCeiling", "SpeedPart", "speed_ceiling"]

# Roles whose weights every decoded token passes; embeddings and towers are not among them.
_PASSED = ("attention", "mlp", "norm", "lm_head")
# More than this share of weights with names that tell nothing, and nothing is said.
_OBSCURE = Fraction(1, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedPart:
    """One thing that is read in a step, in bytes on one GPU."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedCeiling:
    """The most tokens a second that the memory's bandwidth allows while decoding.

    A step gives each of `sequences` one token. `bytes_per_step` = the sum of `parts`, read
    by one GPU (or by one of each pipeline stage, one after another);
    `tokens_per_s_per_sequence` = `bandwidth_bytes_per_s` / `bytes_per_step`.
    """

    tokens: int
    sequences: int
    bandwidth_bytes_per_s: int
    bytes_per_step: int
    parts: tuple[SpeedPart, ...]
    tokens_per_s_per_sequence: float
    tokens_per_s: float


def speed_ceiling(
    arch: Architecture,
    weights: WeightReport | None,
    workload: Workload,
    precision: Precision,
    *,
    gpu: str,
    ranks: tuple[int, int],
    lengths: dict[int, int],
) -> SpeedCeiling | None:
    """Return the bound on GPUs in `ranks` (tensor, pipeline) for `lengths`: tokens → sequences.

    None where the bandwidth is not known, or not which weights a token passes.
    """
    row = row_of(gpu)
    active = None if weights is None else _active(arch, weights, ranks[0])
    if row is None or row.bandwidth_bytes_per_s is None or active is None:
        return None
    parts = tuple(
        part for part in (*active, *_cache(arch, workload, precision, ranks, lengths)) if part.bytes
    )
    total = sum(part.bytes for part in parts)
    if not total:
        return None
    count = sum(lengths.values())
    rate = Fraction(row.bandwidth_bytes_per_s, total)
    return SpeedCeiling(
        tokens=max(lengths),
        sequences=count,
        bandwidth_bytes_per_s=row.bandwidth_bytes_per_s,
        bytes_per_step=total,
        parts=parts,
        tokens_per_s_per_sequence=round(float(rate), 3),
        tokens_per_s=round(float(rate * count), 3),
    )


def _active(arch: Architecture, weights: WeightReport, tp: int) -> tuple[SpeedPart, ...] | None:
    """Return the weights that a step passes at least, on one rank.

    A tied embedding is the output head. Of the routed experts at least as many are read as
    one token uses, shared ones and routers are read whole.
    """
    sizes = {role: total.bytes for role, total in weights.by_role.items() if role != "mtp"}
    whole = sum(sizes.values())
    if arch.kind != "decoder" or not whole or sizes.get("other", 0) > whole * _OBSCURE:
        return None
    loaded = min(Fraction(1), Fraction(weights.loaded_bytes, whole))  # cast to 16 bit
    passed = sum(sizes.get(role, 0) for role in _PASSED)
    if weights.tied_embeddings:
        passed = max(passed, passed - sizes.get("lm_head", 0) + sizes.get("embedding", 0))
    experts = sizes.get("experts", 0)
    every = sum(p.bytes for p in weights.portions if p.role == "experts" and not p.routed)
    used = _used_experts(arch, experts - min(every, experts))
    if used is None:
        return None
    passed += min(every, experts)
    return (
        SpeedPart(name="weights", bytes=int(passed * loaded / tp)),
        SpeedPart(name="active experts", bytes=int(used * loaded / tp)),
    )


def _used_experts(arch: Architecture, size: int) -> Fraction | None:
    """Return the bytes of the experts that one token uses, None where their number is unknown."""
    if not size:
        return Fraction(0)
    if arch.experts is None or arch.experts.active is None:
        return None
    return Fraction(size * min(arch.experts.active, arch.experts.total), arch.experts.total)


def _cache(
    arch: Architecture,
    workload: Workload,
    precision: Precision,
    ranks: tuple[int, int],
    lengths: dict[int, int],
) -> Iterator[SpeedPart]:
    """Yield what is read of the cache: each sequence's own, a common prefix at least once.

    With stages, as many groups of sequences are under way as there are stages.
    """
    tp, pp = ranks
    needed = engine_named("none")
    sizer = sizer_of(arch, workload, needed, precision)
    read = Counter(store for layer in arch.layers for store in _read(layer))
    count = sum(lengths.values())
    group = Fraction(max(count, pp), pp * count)  # of the sequences pass a stage together

    def part(name: str, states: bool) -> SpeedPart:
        stores = [(s, n) for s, n in read.items() if isinstance(s, Fixed) is states]
        size = sum(n * _bytes(sizer, stores, tokens, tp) for tokens, n in lengths.items())
        if not states:
            size -= (count - 1) * _bytes(sizer, stores, workload.shared_prefix, tp)
        return SpeedPart(name=name, bytes=int(max(0, size) * group) * (2 if states else 1))

    yield part("cache", states=False)
    yield part("states, read and written", states=True)


def _bytes(sizer: Sizer, stores: list[tuple[Store, int]], tokens: int, tp: int) -> int:
    return sum(layers * sizer.size(store, tokens, tp) for store, layers in stores)


def _read(layer: Layer) -> Iterator[Store]:
    """Yield the stores that are read whole: an index chooses what is read of the others."""
    indexed = any(store.role is Role.INDEX for store in layer.stores)
    for store in layer.stores:
        if not indexed or isinstance(store, Fixed) or store.role is Role.INDEX or store.window:
            yield store
