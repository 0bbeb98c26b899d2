"""Architecture x Workload x Engine → KVReport."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from hfkv.core.architecture import Architecture
from hfkv.core.engines.engine import Engine, PerGpu, PerStage, Rank
from hfkv.core.precision import Precision
from hfkv.core.ranks import Sizer, common_to_beams, kept_stores, measure, sizer_of
from hfkv.core.record import dataclass
from hfkv.core.simple import SimpleFormula, checked, simple_formula
from hfkv.core.stores import Fixed, Grows, Role, Store
from hfkv.core.workload import Workload

__all__ = ["Component", "KVReport", "PerGpu", "PerStage", "layer_bytes", "measure", "size_cache"]


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
class KVReport:
    """The cache of `sequences` sequences of `tokens` tokens, in bytes.

    `bytes_per_token` is what one more token costs a sequence that is already `tokens` long
    (averaged over a compression ratio); `fixed_bytes_per_sequence` is what a sequence costs
    whatever its length. With `--seq-lens`, `tokens` is the longest and `bytes` the sum.
    `shared_bytes` of a common prefix are in every sequence's figure and only once in `bytes`;
    so is the prompt of each `beams` sequences. `per_gpu` is the fullest rank; `per_stage` has
    every stage of a pipeline, in order, and nothing where there is one.
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
    shared_bytes: int = 0
    beams: int = 1
    per_stage: tuple[PerStage, ...] = ()


def layer_bytes(
    arch: Architecture,
    workload: Workload,
    engine: Engine,
    precision: Precision,
    *,
    tokens: int,
) -> list[int]:
    """Return what each layer holds for one sequence of `tokens`, in bytes."""
    sizer = sizer_of(arch, workload, engine, precision)
    return [
        sum(sizer.size(store, tokens) for store in stores)
        for stores in kept_stores(arch, engine, precision)
    ]


_NAMES = {
    Role.KV: "keys and values",
    Role.LATENT: "latent vector",
    Role.INDEX: "index keys",
    Role.CROSS: "cross-attention",
    Role.STATE: "recurrent state",
    Role.CONV: "convolution state",
}


def _growth(store: Store, sizer: Sizer) -> tuple[str, int | None]:
    if isinstance(store, Fixed):
        return "fixed", None
    if store.role is Role.CROSS:
        return "source", sizer.source_tokens
    if store.window is not None:
        return ("chunk" if store.chunked else "window"), store.window
    if store.stride > 1:
        return "ratio", store.stride
    return "token", None


def _component(store: Store, layers: int, sizer: Sizer, tokens: int) -> Component:
    growth, limit = _growth(store, sizer)
    slots, slot = sizer.slots(store, tokens), sizer.slot_bytes(store)
    name = _NAMES[store.role]
    if isinstance(store, Grows) and growth in ("window", "chunk", "ratio"):
        name = f"{name}, {'1 in' if growth == 'ratio' else growth} {limit}"
    return Component(
        name=name,
        layers=layers,
        growth=growth,
        limit=limit,
        elements_per_slot=store.elements,
        dtype=sizer.precision.of(store).name,
        bytes_per_slot=slot,
        slots=slots,
        bytes=layers * slots * slot,
        shards_by_heads=store.heads,
    )


def _marginal(alike: Counter[Store], sizer: Sizer, tokens: int) -> int:
    """Return what one more token costs: averaged over a ratio and over an engine's rounding."""
    total, period = Fraction(0), sizer.engine.period
    for store, layers in alike.items():
        if isinstance(store, Fixed) or store.role is Role.CROSS or store.modulo is not None:
            continue
        size = layers * sizer.slot_bytes(store)
        if store.stride > 1 and store.window is None:
            total += Fraction(size, store.stride)
        else:
            more = sizer.slots(store, tokens + period) - sizer.slots(store, tokens)
            total += Fraction(size * more, period)
    return int(total)


def size_cache(
    arch: Architecture,
    workload: Workload,
    engine: Engine,
    precision: Precision,
    *,
    tokens: int,
    rank: Rank | None = None,
) -> KVReport:
    """Size the cache of a workload whose sequences are `tokens` long (or `seq_lens`).

    `rank` is the fullest of the deployment (None: one GPU holds it as it is needed).
    Raises UnsupportedError when a length that matters is stated nowhere, UsageError when
    the cache format cannot hold a row.
    """
    sizer = sizer_of(arch, workload, engine, precision)
    stores = kept_stores(arch, engine, precision)
    alike = Counter(store for layer in stores for store in layer)
    components = tuple(_component(s, n, sizer, tokens) for s, n in alike.items())
    one = sum(part.bytes for part in components)
    lengths, beams = workload.seq_lens, workload.beams
    requests = len(lengths) or workload.sequences
    total = one * requests
    if lengths:
        total = sum(n * sizer.size(s, t) for t in lengths for s, n in alike.items())
    shared, prompt = (
        sum(n * sizer.shared_slots(s, kept) * sizer.slot_bytes(s) for s, n in alike.items())
        for kept in (min(workload.shared_prefix, tokens), common_to_beams(workload, tokens))
    )
    total = total * beams - prompt * (beams - 1) * requests - shared * (requests - 1)
    return KVReport(
        tokens=tokens,
        sequences=requests * beams,
        dtype=precision.cache.name,
        dtype_source=precision.cache_source,
        engine=engine.name,
        bytes=total,
        bytes_per_sequence=one,
        bytes_per_token=_marginal(alike, sizer, tokens),
        fixed_bytes_per_sequence=sum(
            part.bytes for part in components if part.growth in ("fixed", "source")
        ),
        components=components,
        simple_formula=checked(
            simple_formula(
                arch,
                stores,
                precision.cache,
                longest=tokens,
                positions=beams * (sum(lengths) or tokens * workload.sequences),
                shared=shared * (requests - 1) + prompt * (beams - 1) > 0,
            ),
            total,
        ),
        per_gpu=rank.at(tokens)
        if rank
        else PerGpu(
            ideal_bytes_per_sequence=one,
            admission_bytes_per_sequence=one,
            steady_bytes_per_sequence=one,
        ),
        shared_bytes=shared,
        beams=beams,
        per_stage=rank.by_stage(tokens) if rank else (),
    )
