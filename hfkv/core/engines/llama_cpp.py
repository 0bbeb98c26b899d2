"""What llama.cpp allocates: whole cells for every slot, f32 states, latents without values.

Read in llama.cpp 0c1e57098 (`src/llama-kv-cache*.cpp`, `llama-memory-recurrent.cpp`,
`llama-hparams.cpp`), and confirmed by sizes that it prints. A server is taken to be started
with one slot a sequence (`-np N -c N*T`): each then has cells of its own.
"""

from __future__ import annotations

from dataclasses import replace

from hfkv.core.architecture import Architecture
from hfkv.core.engines.engine import Engine, text_type
from hfkv.core.stores import Fixed, Grows, Layer, LayerKind, Role, Store
from hfkv.core.workload import Workload

__all__ = ["CACHE_DTYPES", "LLAMA_CPP", "MICRO_BATCH", "adapt", "cells", "held", "window_cells"]

MICRO_BATCH = 512  # --ubatch-size
_CELLS = 256  # caches are whole multiples of this
# --cache-type-k and --cache-type-v
CACHE_DTYPES = (
    "float16",
    "bfloat16",
    "float32",
    "q8_0",
    "q5_1",
    "q5_0",
    "q4_1",
    "q4_0",
    "iq4_nl",
)

# Model types whose windows llama.cpp honours; every other (Mistral, Qwen2, Phi-3 …) gets a
# full cache. Source: the `LLM_ARCH_*` cases that set `swa_type` in src/llama-model.cpp.
_HONOURS_WINDOWS = frozenset(
    {
        "afmoe",
        "cohere2",
        "cohere2_moe",
        "deepseek_v4",
        "dots3_note_text",
        "exaone4",
        "exaone4_5_text",
        "exaone_moe",
        "gemma2",
        "gemma3_text",
        "gemma3n_text",
        "gemma4_text",
        "gemma4_unified_text",
        "gpt_oss",
        "granite_swa",
        "granitemoe_swa",
        "laguna",
        "llama4_text",
        "maple",
        "mellum",
        "mimo_v2",
        "mimo_v2_flash",
        "muse_glimmer_text",
        "olmo2",
        "olmo3",
        "plamo3",
        "smallthinker",
        "spark2_5",
        "step3p5",
    }
)
# The largest ratio whose compressor overlaps blocks.
_OVERLAPPING = 4


def cells(entries: int) -> int:
    """Return the cells that hold `entries`: whole multiples of 256."""
    return -(-entries // _CELLS) * _CELLS


def window_cells(length: int, window: int, *, batch: int, sharing: int = 1) -> int:
    """Return the cells of a window cache beside a full one of `length` cells.

    A window is kept for each of `sharing` sequences in one unified cache, and one
    micro-batch that is computed at once. Source: src/llama-kv-cache-iswa.cpp.
    """
    return cells(min(length, window * sharing + batch))


def slots(store: Store, tokens: int, workload: Workload) -> int:
    """Return the cells that a slot of `tokens` has in one store."""
    return held(store, tokens, batch=workload.deployment.max_num_batched_tokens or MICRO_BATCH)


def held(store: Store, tokens: int, *, batch: int) -> int:
    """Return the cells of a store for a micro-batch of `batch` tokens; a state is one row."""
    if isinstance(store, Fixed):
        return 1
    if store.role is Role.CROSS:
        return tokens
    length = cells(tokens)
    if store.window is not None:
        return window_cells(length, store.window, batch=batch)
    return cells(-(-length // store.stride))


def adapt(arch: Architecture, _index: int, layer: Layer) -> tuple[Store, ...]:
    """Return a layer's stores as llama.cpp has them."""
    name = text_type(arch)
    if name == "deepseek_v4":
        return _deepseek_v4(layer)
    return tuple(
        _state(store) if isinstance(store, Fixed) else _grows(name, store) for store in layer.stores
    )


def _state(store: Fixed) -> Fixed:
    """Return a state in float32, whatever the model computes in."""
    return replace(store, dtype="float32")


def _grows(name: str, store: Grows) -> Grows:
    """Return a cache in the one format of the run, with its window where it is honoured.

    The index cache of a model without latents also gets values that nobody reads, and that
    of GLM-5-next three vectors a token.
    """
    if store.role is Role.INDEX:
        value = store.key if name.startswith("minimax_m3") else 0
        width = 3 * store.key if name == "glm5_next_text" else store.key
        return replace(store, key=width, value=value, dtype=None)
    kept = store.window if name in _HONOURS_WINDOWS else None
    return replace(store, window=kept, chunked=store.chunked and kept is not None)


def _deepseek_v4(layer: Layer) -> tuple[Store, ...]:
    """Return one DeepSeek-V4 layer: its caches, and its compressors' buffers in float32.

    A compressor buffers inputs and gates of one block of r tokens; the overlapping kind
    (r = 4) and its indexer's two blocks of twice the width.
    """
    kept: list[Store] = list(layer.stores)
    if layer.kind is LayerKind.COMPRESSED:
        for store in layer.stores:
            if isinstance(store, Grows) and store.stride > 1:
                blocks = 2 if store.stride <= _OVERLAPPING else 1
                size = 2 * (blocks * store.key) * (blocks * store.stride)
                kept.append(Fixed(elements=size, dtype="float32"))
    return tuple(kept)


LLAMA_CPP = Engine(
    name="llama.cpp",
    adapt=adapt,
    slots=slots,
    period=_CELLS,
    serves_float32=True,
    cache_dtype="float16",
    cache_dtypes=CACHE_DTYPES,
    small_dtype="q8_0",
    weight_formats=("q8_0", "q4_0"),
    splits_layers=True,
    embeds_on_host=True,
)
