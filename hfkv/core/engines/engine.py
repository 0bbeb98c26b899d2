"""What an engine is to the core: how it changes a store, and what it rounds.

An engine is handed an architecture's stores and answers with its own. It never sees
config.json; what is true of one model type only is looked up by that name in its file.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Protocol

from hfkv.core.architecture import Architecture
from hfkv.core.dtypes import DType
from hfkv.core.engines.mxfp4 import UNPADDED, Mxfp4Kernel
from hfkv.core.record import dataclass
from hfkv.core.stores import Fixed, Layer, Store
from hfkv.core.workload import Deployment, GpuChoice, Workload

__all__ = [
    "Engine",
    "Formats",
    "PerGpu",
    "PerStage",
    "Rank",
    "Stage",
    "StartUp",
    "as_needed",
    "entries",
    "ranks_of",
    "text_type",
]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PerStage:
    """The same on one rank of a pipeline stage; `layers` are those that hold a cache there."""

    layers: tuple[int, ...]
    per_gpu: PerGpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One of several pipeline stages: its layers with a cache, its figures by the tokens."""

    layers: tuple[int, ...]
    at: Callable[[int], PerGpu]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUp:
    """What an engine logs when it starts with so much memory for the cache.

    `max_concurrency` is a fraction: blocks there are, blocks that one sequence may take.
    `longest` is the longest sequence the start-up check admits, at most the one asked for,
    `loaded_bytes` what it says it loaded on a GPU, None where the weights are not known.
    """

    kv_cache_tokens: int
    max_concurrency: tuple[int, int]
    longest: int
    loaded_bytes: int | None = None


def _nothing(_prefix: int, _tokens: int) -> int:
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """The fullest rank of one deployment: the bytes of one sequence there, by its tokens.

    `ideal` is the model's need, `admission` what the start-up check counts, `reserved` what
    bounds the number of sequences (vLLM 0.14 to 0.19 checks less), `steady` what decoding
    holds. `shared(prefix, tokens)` is what a sequence saves when others have its prefix too.
    `held_back` bytes of the pool are never a sequence's; `started(tokens, pool)` is the log.
    `stages` are those of a pipeline, in order; where there is one, the rank itself speaks for it.
    """

    ideal: Callable[[int], int]
    admission: Callable[[int], int]
    reserved: Callable[[int], int]
    steady: Callable[[int], int]
    shared: Callable[[int, int], int] = _nothing
    held_back: int = 0
    started: Callable[[int, int], StartUp] | None = None
    stages: tuple[Stage, ...] = ()

    def at(self, tokens: int) -> PerGpu:
        """Return the three figures of a sequence of `tokens`."""
        return PerGpu(
            ideal_bytes_per_sequence=self.ideal(tokens),
            admission_bytes_per_sequence=self.admission(tokens),
            steady_bytes_per_sequence=self.steady(tokens),
        )

    def by_stage(self, tokens: int) -> tuple[PerStage, ...]:
        """Return the three figures on each of several stages."""
        return tuple(
            PerStage(layers=stage.layers, per_gpu=stage.at(tokens)) for stage in self.stages
        )


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


def ranks_of(deployment: Deployment) -> tuple[int, int]:
    """Return the tensor and pipeline parallel sizes, from the GPUs where they are not stated."""
    count = deployment.gpus[0].count if deployment.gpus else 1
    pp = max(1, deployment.pipeline_parallel_size)
    return max(1, deployment.tensor_parallel_size or count // pp), pp


def unpadded(_gpu: GpuChoice, _version: str | None) -> Mxfp4Kernel:
    """Return the layout of the checkpoint itself."""
    return UNPADDED


def at_the_ends(_arch: Architecture, _version: str | None) -> frozenset[str]:
    """Return no role: embeddings are on the first stage only, and the head on the last."""
    return frozenset()


def _settings(deployment: Deployment) -> Hashable:
    return (*ranks_of(deployment), deployment.max_num_batched_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One engine. `adapt(architecture, layer index, layer)` returns what it really keeps.

    `pack(layer, stores, cache format)` returns stores that the format lays out in a way of
    its own; `slots(store, tokens, workload)` says how many entries are allocated for a
    sequence, and `period` after how many tokens its rounding repeats.
    `serves_float32` says that a float32 checkpoint is computed in float32 (the serving
    engines cast it to 16 bit). `cache_dtype` is the format of the cache where the user
    names none (None: what the checkpoint declares, else its compute dtype); `cache_dtypes`
    are the formats there are (empty: not known), `default_cache(architecture, deployment)` the
    one of a model on some GPUs where neither user nor checkpoint names any, and `small_dtype`
    the one of 8 bits, if there is one.
    `splits_layers` says that several GPUs share the layers, not the heads, `embeds_on_host`
    that the input embedding stays with the host. `rank` answers for
    one sequence on one rank, where blocks, reserves and padding make that more than the sum
    of its stores; `settings` is all that it heeds of a deployment. `shares_prefixes` says
    that a prefix is kept once for all sequences that have it, and `preempts` that running
    sequences may be put off when the pool is full. `weight_formats` are what its users
    quantize weights to, the milder first. `default_context` is the length it serves where
    that is not the model's maximum, `vocabulary_padding` what the rows of embedding and head
    are rounded up to a multiple of, and `mxfp4_kernel(gpu, version)` how mxfp4 experts are
    laid out there; `waste(sizes of tensors)` is what its memory allocator hands out beyond
    them, where it keeps tensors as `hfkv.core.fused` says, and `on_every_stage(architecture,
    version)` the roles of weights that each stage of a pipeline has. `positions_in(
    architecture, compute format)` is the format of whole tables of rotary positions, where it
    builds those beside the weights and counts them as loaded.
    """

    name: str
    adapt: Callable[[Architecture, int, Layer], tuple[Store, ...]] = as_needed
    pack: Callable[[Layer, tuple[Store, ...], DType], tuple[Store, ...]] = as_adapted
    slots: Callable[[Store, int, Workload], int] = entries
    period: int = 1
    serves_float32: bool = False
    cache_dtype: str | None = None
    cache_dtypes: tuple[str, ...] = ()
    default_cache: Callable[[Architecture, Deployment], str | None] | None = None
    small_dtype: str | None = "fp8"
    splits_layers: bool = False
    embeds_on_host: bool = False
    rank: Callable[[Architecture, Workload, Formats], Rank] | None = None
    settings: Callable[[Deployment], Hashable] = _settings
    shares_prefixes: bool = False
    preempts: bool = False
    weight_formats: tuple[str, ...] = ("fp8", "int4")
    default_context: Callable[[Architecture, Deployment], int | None] | None = None
    vocabulary_padding: int = 1
    mxfp4_kernel: Callable[[GpuChoice, str | None], Mxfp4Kernel] = unpadded
    waste: Callable[[Iterable[int]], int] | None = None
    on_every_stage: Callable[[Architecture, str | None], frozenset[str]] = at_the_ends
    positions_in: Callable[[Architecture, DType], DType] | None = None

    def kept(self, arch: Architecture, index: int, layer: Layer) -> tuple[Store, ...]:
        """Return what it keeps of a layer; a store without elements is no store.

        A convolution of kernel 1 needs no past inputs, but an engine may keep a column for it.
        """
        return tuple(store for store in self.adapt(arch, index, layer) if store.elements)
