"""What SGLang allocates: one pool of tokens, one of window tokens, one of states.

Source: SGLang 0.5.23, `srt/model_executor/pool_configurator.py`, `srt/mem_cache/memory_pool.py`,
`srt/mem_cache/kv_cache_configurator.py`. How much memory the pools get: `core/budget.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from hfkv.core.architecture import Architecture
from hfkv.core.dtypes import DType
from hfkv.core.engines.engine import (
    Engine,
    Formats,
    PerGpu,
    Rank,
    Stage,
    entries,
    ranks_of,
    text_type,
)
from hfkv.core.engines.stages import pipeline_stages
from hfkv.core.engines.torch_blocks import torch_waste
from hfkv.core.gpus import BLACKWELL, capability
from hfkv.core.record import dataclass
from hfkv.core.stores import Fixed, Grows, Layer, LayerKind, Role, Store
from hfkv.core.workload import Deployment, Workload

__all__ = ["SGLANG"]

# Model types with a window pool; every other (Gemma-2/3, Mistral, Qwen2 …) gets full caches.
# Source: srt/configs/model_config.py, is_hybrid_swa_model.
_HONOURS_WINDOWS = frozenset(
    {
        "deepseek_v4",
        "gemma4_text",
        "gemma4_unified_text",
        "gpt_oss",
        "inkling2_text",
        "inkling_text",
        "laguna",
        "llama4_text",
        "mellum",
        "mimo_v2",
        "mimo_v2_flash",
        "muse_glimmer_text",
        "muse_spark_text",
        "step3p5",
    }
)
# Tokens of the window pool per token of the full one (`swa_full_tokens_ratio`), as n / d:
# the pool is sized for its share of the tokens, not for the window.
_WINDOW_SHARE = (4, 5)
_V4_WINDOW_SHARE = (1, 10)
# A running request's state, its prefix's and one being donated to the prefix cache.
# Source: MAMBA_CACHE_SIZE_MAX_RUNNING_REQUESTS_RATIO; up to 5 with an extra buffer.
_STATES = 3
_SCALED = 128  # values that share one float32 scale in an index key
_SPARSE_ROW = 656  # bytes: 512 fp8 values, 4 float32 scales, 64 bf16 values
_FP8 = ("fp8", "fp8_e4m3", "fp8_e5m2")

# DeepSeek-V4, bytes of one entry: 448 fp8 values, 64 bf16 for the rotary part, 8 of scales.
_V4_ROW = 584
# The overlapping compressor's buffer has 8 rows for each page of 128 window tokens.
_V4_ROWS_EVERY = 16
_V4_OVERLAPPING = 4


def _slots(store: Store, tokens: int, _workload: Workload) -> int:
    """Return the pool entries that a sequence of `tokens` takes up.

    A window takes its share of the tokens, and never less than it needs. Only states that
    have heads belong to the prefix cache.
    """
    if isinstance(store, Fixed):
        return _STATES if store.heads else 1
    if store.window is None or store.role is Role.CROSS:
        return store.slots(tokens)
    share, of = _V4_WINDOW_SHARE if store.heads is None else _WINDOW_SHARE
    kept = max(min(tokens, store.window), -(-tokens * share // of))
    return kept // store.stride


def _adapt(arch: Architecture, _index: int, layer: Layer) -> tuple[Store, ...]:
    name = text_type(arch)
    if name == "deepseek_v4":
        return _deepseek_v4(layer)
    return tuple(
        _state(arch, store) if isinstance(store, Fixed) else _grows(name, layer, store)
        for store in layer.stores
    )


def _state(arch: Architecture, store: Fixed) -> Fixed:
    """Return convolution inputs in the model's format, recurrent states in float32.

    Source: srt/configs/mamba_utils.py; `mamba_ssm_dtype` in the config overrides it.
    """
    return replace(store, dtype=None if store.role is Role.CONV else arch.state_dtype or "float32")


def _grows(name: str, layer: Layer, store: Grows) -> Grows:
    if store.role is Role.INDEX and layer.kind is LayerKind.SPARSE_LATENT:
        return _index_row(store)
    if store.role is Role.INDEX and name.startswith("minimax_m3"):
        return replace(store, dtype="bfloat16")
    if name not in _HONOURS_WINDOWS:
        return replace(store, window=None, chunked=False)
    return store


def _index_row(store: Grows) -> Grows:
    """Return index keys in fp8 with a float32 scale for each 128 values."""
    return replace(store, key=store.key + -(-store.key // _SCALED) * 4, dtype="fp8")


def _deepseek_v4(layer: Layer) -> tuple[Store, ...]:
    """Return one DeepSeek-V4 layer: packed rows, index rows, compressors' buffers in float32.

    Buffers of the overlapping compressor (r = 4) and its indexer live beside the window
    pool; those of the other kind belong to a request. Source: DSV4PoolConfigurator.
    """
    kept: list[Store] = []
    for store in layer.stores:
        if not isinstance(store, Grows):
            kept.append(store)
            continue
        index = store.role is Role.INDEX
        kept.append(_index_row(store) if index else replace(store, key=_V4_ROW, dtype="fp8"))
        if store.stride > _V4_OVERLAPPING:
            size = 2 * store.key * store.stride
            kept.append(Fixed(elements=size, dtype="float32"))
        elif store.stride > 1:
            kept.append(
                Grows(
                    key=4 * store.key,
                    window=_SCALED,
                    stride=_V4_ROWS_EVERY,
                    role=Role.STATE,
                    dtype="float32",
                )
            )
    return tuple(kept)


def _pack(layer: Layer, stores: tuple[Store, ...], cache: DType) -> tuple[Store, ...]:
    """Return sparse latents in fp8 as rows of 656 bytes.

    Source: DSATokenToKVPool; the trtllm and tilelang kernels keep 576 plain bytes instead.
    """
    if layer.kind is not LayerKind.SPARSE_LATENT or cache.name not in _FP8:
        return stores
    return tuple(
        replace(store, key=_SPARSE_ROW, dtype="fp8")
        if isinstance(store, Grows) and store.role is Role.LATENT and store.key == 576
        else store
        for store in stores
    )


def _rank(arch: Architecture, workload: Workload, formats: Formats) -> Rank:
    """Answer for one sequence on one rank: its need, its share of the pools, its load.

    A hybrid's memory is first split between tokens and states, 10 to 9: whichever pool a
    sequence takes more of decides how many there may be.
    """
    tp, pp = ranks_of(workload.deployment)
    source = (arch.source_tokens if workload.source_tokens is None else workload.source_tokens) or 0

    def loads(stores: list[Store]) -> tuple[_Load, ...]:
        alike = Counter(stores)
        return tuple((store, n * _entry(store, formats, tp)) for store, n in alike.items())

    stages = []
    for stage in pipeline_stages(len(arch.layers), pp):
        layers = [(i, arch.layers[i]) for i in stage]
        packed = {i: _pack(x, _adapt(arch, i, x), formats.cache) for i, x in layers}
        kept = [s for stores in packed.values() for s in stores]
        stages.append(
            _Stage(
                layers=tuple(i for i, stores in packed.items() if stores),
                needed=loads([s for _, x in layers for s in x.stores]),
                cache=loads([s for s in kept if not _pooled(s)]),
                states=loads([s for s in kept if _pooled(s)]),
                source=source,
                workload=workload,
            )
        )

    def fullest(tokens: int) -> _Stage:
        return max(stages, key=lambda stage: stage.reserved(tokens))

    return Rank(
        ideal=lambda tokens: fullest(tokens).ideal(tokens),
        admission=lambda tokens: fullest(tokens).reserved(tokens),
        reserved=lambda tokens: fullest(tokens).reserved(tokens),
        steady=lambda tokens: fullest(tokens).steady(tokens),
        shared=lambda prefix, tokens: fullest(tokens).shared(prefix, tokens),
        stages=tuple(Stage(layers=x.layers, at=x.at) for x in stages) if pp > 1 else (),
    )


_Load = tuple[Store, int]  # a store, and the bytes of one of its entries in all layers


def _entry(store: Store, formats: Formats, tp: int) -> int:
    elements = store.elements
    if store.heads is not None:
        elements = elements // store.heads * -(-store.heads // tp)
    return formats.of(store).size(elements)


def _pooled(store: Store) -> bool:
    """Tell a state of the prefix cache's pool from what belongs to a request."""
    return isinstance(store, Fixed) and store.heads is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """One pipeline stage: what its layers need, and what the two pools hold of them."""

    layers: tuple[int, ...]
    needed: tuple[_Load, ...]
    cache: tuple[_Load, ...]
    states: tuple[_Load, ...]
    source: int
    workload: Workload

    def at(self, tokens: int) -> PerGpu:
        """Return the three figures of one sequence."""
        return PerGpu(
            ideal_bytes_per_sequence=self.ideal(tokens),
            admission_bytes_per_sequence=self.reserved(tokens),
            steady_bytes_per_sequence=self.steady(tokens),
        )

    def ideal(self, tokens: int) -> int:
        """Return the need of one sequence."""
        return self._sum(entries, self.needed, tokens)

    def steady(self, tokens: int) -> int:
        """Return what a running sequence holds."""
        return self._sum(_slots, self.cache + self.states, tokens)

    def reserved(self, tokens: int) -> int:
        """Return the memory for both pools in which a sequence finds room."""
        return _of_pools(self._sum(_slots, self.cache, tokens), self._states)

    def shared(self, prefix: int, tokens: int) -> int:
        """Return what a prefix saves a sequence; the pool of states is not relieved."""
        kept = min(prefix, tokens)
        size = sum(s.slots(kept) * n for s, n in self.cache if isinstance(s, Grows) and _full(s))
        if not self._states:
            return size
        spare = self.reserved(tokens) - _of_pools(0, self._states)
        return min(size * 19 // 10, spare)

    @property
    def _states(self) -> int:
        return self._sum(_slots, self.states, 0)

    def _sum(
        self, slots: Callable[[Store, int, Workload], int], loads: tuple[_Load, ...], tokens: int
    ) -> int:
        return sum(
            slots(store, self.source if store.role is Role.CROSS else tokens, self.workload) * size
            for store, size in loads
        )


def _full(store: Grows) -> bool:
    return store.window is None and store.role is not Role.CROSS


def _of_pools(cache: int, state: int) -> int:
    """Return the memory for both pools in which a sequence finds room (ratio r = 0.9)."""
    if not state:
        return cache
    return max(-(-cache * 19 // 10), -(-state * 19 // 9))


def _default_cache(arch: Architecture, deployment: Deployment) -> str | None:
    """Return fp8 for sparse latents from compute capability 10 on, None for the model's format.

    Source: SGLang 0.5.23, srt/arg_groups/overrides.py.
    """
    sparse = any({Role.LATENT, Role.INDEX} <= {s.role for s in x.stores} for x in arch.layers)
    new = deployment.gpus and capability(deployment.gpus[0]) >= BLACKWELL
    return "fp8_e4m3" if sparse and new else None


SGLANG = Engine(
    name="sglang",
    waste=torch_waste,
    adapt=_adapt,
    pack=_pack,
    slots=_slots,
    period=_V4_ROWS_EVERY * 10,
    rank=_rank,
    shares_prefixes=True,
    preempts=True,
    cache_dtypes=("bfloat16", "float16", *_FP8, "nvfp4"),
    default_cache=_default_cache,
    vocabulary_padding=64,  # sglang/srt/layers/vocab_parallel_embedding.py
)
