"""What one sequence takes on each rank: stores and lengths in, bytes out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from hfkv.core.architecture import Architecture
from hfkv.core.engines.engine import Engine, PerGpu, Rank, Stage, ranks_of
from hfkv.core.engines.registry import engine_named
from hfkv.core.engines.stages import pipeline_stages
from hfkv.core.precision import Precision
from hfkv.core.record import dataclass
from hfkv.core.stores import Fixed, Grows, Role, Store
from hfkv.core.workload import Deployment, Workload
from hfkv.errors import UnsupportedError

__all__ = [
    "Sizer",
    "asked_rank",
    "common_to_beams",
    "kept_stores",
    "measure",
    "of_beams",
    "rank_of",
    "remembered",
    "sizer_of",
]

# What a prefix leaves in the cache whatever follows it.
_PREFIXED = (Role.KV, Role.LATENT, Role.INDEX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizer:
    """What the arithmetic needs besides a store and a length."""

    engine: Engine
    workload: Workload
    precision: Precision
    source_tokens: int

    def slots(self, store: Store, tokens: int) -> int:
        """Return how many entries the engine allocates."""
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
        """Return the bytes of one store on one rank."""
        return self.slots(store, tokens) * self.slot_bytes(store, tp)

    def shared_slots(self, store: Store, prefix: int) -> int:
        """Return the entries of whole blocks of a prefix that are kept once for all sequences.

        A layer with a window has none: it moves on from the prefix.
        """
        growing = isinstance(store, Grows) and store.window is None and store.role in _PREFIXED
        if not growing or not self.engine.shares_prefixes:
            return 0
        return self.slots(store, prefix // self.engine.period * self.engine.period)


def sizer_of(arch: Architecture, workload: Workload, engine: Engine, precision: Precision) -> Sizer:
    """Return the sizer of a workload.

    Raises UnsupportedError where nothing says how long cross-attention is.
    """
    source = arch.source_tokens if workload.source_tokens is None else workload.source_tokens
    if source is None:
        raise UnsupportedError(
            "nothing states how many source positions cross-attention holds",
            hint="say how many with --source-tokens",
            code="source-tokens",
        )
    return Sizer(engine=engine, workload=workload, precision=precision, source_tokens=source)


def kept_stores(
    arch: Architecture, engine: Engine, precision: Precision
) -> list[tuple[Store, ...]]:
    """Return what an engine keeps of each layer, in a cache format."""
    return [
        engine.pack(layer, engine.kept(arch, i, layer), precision.cache)
        for i, layer in enumerate(arch.layers)
    ]


Load = tuple[Store, int]  # a store, and the bytes of one of its entries in all layers


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loads:
    """The loads of each pipeline stage, on one of its ranks, and its layers that keep any."""

    sizer: Sizer
    layers: tuple[tuple[int, ...], ...]
    stages: tuple[tuple[Load, ...], ...]

    def bytes(self, tokens: int) -> int:
        """Return the bytes of one sequence on the fullest stage."""
        return max((self.on(stage, tokens) for stage in self.stages), default=0)

    def shared(self, prefix: int, tokens: int) -> int:
        """Return what of a prefix is kept once for all, on the stage that is fullest."""
        stage = max(self.stages, key=lambda stage: self.on(stage, tokens), default=())
        kept = min(prefix, tokens)
        return sum(self.sizer.shared_slots(store, kept) * size for store, size in stage)

    def on(self, stage: tuple[Load, ...], tokens: int) -> int:
        """Return the bytes of one sequence on one stage."""
        return sum(self.sizer.slots(store, tokens) * size for store, size in stage)


def _loads(
    arch: Architecture,
    workload: Workload,
    engine: Engine,
    precision: Precision,
    *,
    tp: int,
    pp: int,
) -> _Loads:
    sizer = sizer_of(arch, workload, engine, precision)
    stores = kept_stores(arch, engine, precision)
    cut = pipeline_stages(len(stores), pp)
    alike = [Counter(s for i in stage for s in stores[i]) for stage in cut]
    stages = (
        tuple((store, layers * sizer.slot_bytes(store, tp)) for store, layers in stage.items())
        for stage in alike
    )
    layers = tuple(tuple(i for i in stage if stores[i]) for stage in cut)
    return _Loads(sizer=sizer, layers=layers, stages=tuple(stages))


def rank_of(arch: Architecture, workload: Workload, engine: Engine, precision: Precision) -> Rank:
    """Return the fullest rank of the workload's deployment; lengths are asked of it afterwards.

    Everything that does not depend on a length is worked out here. Raises UnsupportedError
    for a model, UsageError for a plan that the engine refuses.
    """
    if engine.rank is not None:
        return engine.rank(arch, workload, precision)
    tp, pp = ranks_of(workload.deployment)
    needed, held = (
        _loads(arch, workload, one, precision, tp=tp, pp=pp)
        for one in (engine_named("none"), engine)
    )
    return Rank(
        ideal=needed.bytes,
        admission=held.bytes,
        reserved=held.bytes,
        steady=held.bytes,
        shared=held.shared,
        stages=_stages(needed, held) if pp > 1 else (),
    )


def _stages(needed: _Loads, held: _Loads) -> tuple[Stage, ...]:
    def stage(layers: tuple[int, ...], own: tuple[Load, ...], kept: tuple[Load, ...]) -> Stage:
        return Stage(
            layers=layers,
            at=lambda tokens: PerGpu(
                ideal_bytes_per_sequence=needed.on(own, tokens),
                admission_bytes_per_sequence=held.on(kept, tokens),
                steady_bytes_per_sequence=held.on(kept, tokens),
            ),
        )

    return tuple(map(stage, held.layers, needed.stages, held.stages))


def common_to_beams(workload: Workload, tokens: int) -> int:
    """Return the tokens that the beams of a request of `tokens` have in common."""
    return min(workload.prompt or workload.shared_prefix, tokens) if workload.beams > 1 else 0


def of_beams(rank: Rank, workload: Workload) -> Rank:
    """Return a rank that answers for a whole request: all its beams, their prompt once."""
    if workload.beams == 1:
        return rank

    def all_of(size: Callable[[int], int]) -> Callable[[int], int]:
        def request(tokens: int) -> int:
            common = common_to_beams(workload, tokens)
            return workload.beams * size(tokens) - (workload.beams - 1) * rank.shared(
                common, tokens
            )

        return request

    return replace(
        rank,
        ideal=all_of(rank.ideal),
        admission=all_of(rank.admission),
        reserved=all_of(rank.reserved),
        steady=all_of(rank.steady),
    )


def remembered(rank: Rank) -> Rank:
    """Return a rank that works out each length once: every GPU and every way to fit asks again."""
    return replace(
        rank,
        ideal=cache(rank.ideal),
        admission=cache(rank.admission),
        reserved=cache(rank.reserved),
        steady=cache(rank.steady),
        shared=cache(rank.shared),
    )


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
    """Return the bytes that the stores of one sequence take on the most loaded rank."""
    return _loads(arch, workload, engine, precision, tp=tp, pp=pp).bytes(tokens)


def asked_rank(
    arch: Architecture, workload: Workload, engine: Engine, precision: Precision
) -> Rank:
    """Return the fullest rank of the (first) deployment, as the engine splits it.

    Raises UnsupportedError for a model, UsageError for a plan that the engine refuses.
    """
    deployment = _split(workload.deployment, engine, len(arch.layers))
    placed = replace(workload, deployment=deployment)
    return rank_of(arch, placed, engine, precision)


def _split(deployment: Deployment, engine: Engine, layers: int) -> Deployment:
    """Return a deployment whose GPUs share the layers where the engine does so by itself."""
    stated = deployment.tensor_parallel_size or deployment.pipeline_parallel_size > 1
    if not engine.splits_layers or stated:
        return deployment
    count = deployment.gpus[0].count if deployment.gpus else 1
    stages = min(count, max(1, layers))
    return replace(deployment, tensor_parallel_size=1, pipeline_parallel_size=stages)
