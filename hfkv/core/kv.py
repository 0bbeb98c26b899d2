"""Architecture x Workload x Engine → KVReport."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from hfkv.core.architecture import Architecture
from hfkv.core.engines.engine import Engine, PerGpu
from hfkv.core.engines.registry import engine_named
from hfkv.core.engines.stages import pipeline_stages
from hfkv.core.precision import Precision
from hfkv.core.simple import SimpleFormula, simple_formula
from hfkv.core.stores import Fixed, Grows, Role, Store
from hfkv.core.workload import Deployment, Workload
from hfkv.errors import UnsupportedError

__all__ = ["Component", "KVReport", "PerGpu", "layer_bytes", "measure", "per_rank", "size_cache"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizer:
    """What the arithmetic needs besides a store and a length."""

    engine: Engine
    workload: Workload
    precision: Precision
    source_tokens: int

    def slots(self, store: Store, tokens: int) -> int:
        length = self.source_tokens if store.role is Role.CROSS else tokens
        return self.engine.slots(store, length, self.workload)

    def slot_bytes(self, store: Store, tp: int = 1) -> int:
        """Return bytes of one entry on one rank; fewer heads than ranks are replicated."""
        elements = store.elements
        if store.heads is not None and tp > 1:
            whole = store.whole if isinstance(store, Fixed) else 0
            elements = whole + (elements - whole) // store.heads * -(-store.heads // tp)
        return self.precision.of(store).size(elements)

    def size(self, store: Store, tokens: int, tp: int = 1) -> int:
        return self.slots(store, tokens) * self.slot_bytes(store, tp)


def _stores(arch: Architecture, engine: Engine, precision: Precision) -> list[tuple[Store, ...]]:
    return [
        engine.pack(layer, engine.adapt(arch, i, layer), precision.cache)
        for i, layer in enumerate(arch.layers)
    ]


def _sizer(arch: Architecture, workload: Workload, engine: Engine, precision: Precision) -> _Sizer:
    source = arch.source_tokens if workload.source_tokens is None else workload.source_tokens
    if source is None:
        raise UnsupportedError(
            "nothing states how many source positions cross-attention holds",
            hint="say how many with --source-tokens",
            code="source-tokens",
        )
    return _Sizer(engine=engine, workload=workload, precision=precision, source_tokens=source)


def layer_bytes(
    arch: Architecture,
    workload: Workload,
    engine: Engine,
    precision: Precision,
    *,
    tokens: int,
) -> list[int]:
    """Return what each layer holds for one sequence of `tokens`, in bytes."""
    sizer = _sizer(arch, workload, engine, precision)
    return [
        sum(sizer.size(store, tokens) for store in stores)
        for stores in _stores(arch, engine, precision)
    ]


def measure(
    arch: Architecture,
    workload: Workload,
    engine: Engine,
    precision: Precision,
    *,
    tokens: int,
    tp: int = 1,
    pp: int = 1,
) -> int:
    """Return the bytes of one sequence of `tokens` on the most loaded rank."""
    sizer = _sizer(arch, workload, engine, precision)
    stores = _stores(arch, engine, precision)
    loads = []
    for stage in pipeline_stages(len(stores), pp):
        alike = Counter(store for i in stage for store in stores[i])
        loads.append(sum(n * sizer.size(store, tokens, tp) for store, n in alike.items()))
    return max(loads, default=0)


def per_rank(
    arch: Architecture, workload: Workload, engine: Engine, precision: Precision, *, tokens: int
) -> PerGpu:
    """Report one sequence of `tokens` on the fullest rank of the (first) deployment.

    Engines that reserve more than they hold have a report of their own. Raises
    UnsupportedError for a model, UsageError for a plan that such an engine refuses.
    """
    if engine.per_gpu is not None:
        return engine.per_gpu(arch, workload, precision, tokens)
    tp, pp = _plan(workload.deployment, engine, len(arch.layers))
    needed, held = (
        measure(arch, workload, one, precision, tokens=tokens, tp=tp, pp=pp)
        for one in (engine_named("none"), engine)
    )
    return PerGpu(
        ideal_bytes_per_sequence=needed,
        admission_bytes_per_sequence=held,
        steady_bytes_per_sequence=held,
    )


def _plan(deployment: Deployment, engine: Engine, layers: int) -> tuple[int, int]:
    """Return the ranks that share the heads, and the stages that share the layers."""
    tp, pp = deployment.tensor_parallel_size, max(1, deployment.pipeline_parallel_size)
    count = deployment.gpus[0].count if deployment.gpus else 1
    if engine.splits_layers and tp is None and pp == 1:
        return 1, min(count, max(1, layers))
    return max(1, tp or count // pp), pp


_NAMES = {
    Role.KV: "keys and values",
    Role.LATENT: "latent vector",
    Role.INDEX: "index keys",
    Role.CROSS: "cross-attention",
    Role.STATE: "recurrent state",
    Role.CONV: "convolution state",
}


def _growth(store: Store, sizer: _Sizer) -> tuple[str, int | None]:
    if isinstance(store, Fixed):
        return "fixed", None
    if store.role is Role.CROSS:
        return "source", sizer.source_tokens
    if store.window is not None:
        return ("chunk" if store.chunked else "window"), store.window
    if store.stride > 1:
        return "ratio", store.stride
    return "token", None


def _component(store: Store, layers: int, sizer: _Sizer, tokens: int) -> Component:
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


def _marginal(alike: Counter[Store], sizer: _Sizer, tokens: int) -> int:
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
    per_gpu: PerGpu | None = None,
) -> KVReport:
    """Size the cache of a workload whose sequences are `tokens` long (or `seq_lens`).

    Raises UnsupportedError when a length that matters is stated nowhere, UsageError when
    the cache format cannot hold a row.
    """
    sizer = _sizer(arch, workload, engine, precision)
    stores = _stores(arch, engine, precision)
    alike = Counter(store for layer in stores for store in layer)
    components = tuple(_component(s, n, sizer, tokens) for s, n in alike.items())
    one = sum(part.bytes for part in components)
    lengths = workload.seq_lens
    total = one * workload.sequences
    if lengths:
        total = sum(n * sizer.size(s, t) for t in lengths for s, n in alike.items())
    return KVReport(
        tokens=tokens,
        sequences=len(lengths) or workload.sequences,
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
        simple_formula=simple_formula(
            arch,
            stores,
            precision.cache,
            longest=tokens,
            positions=sum(lengths) or tokens * workload.sequences,
        ),
        per_gpu=per_gpu
        or PerGpu(
            ideal_bytes_per_sequence=one,
            admission_bytes_per_sequence=one,
            steady_bytes_per_sequence=one,
        ),
    )
