"""What transformers' dynamic caches hold beyond, or short of, the model's need.

Measured with transformers 5.24 (fixtures/oracle/transformers_kv.jsonl); `cache_utils.py`
for the rules, the modeling files for what is true of one class.
"""

from __future__ import annotations

from dataclasses import replace

from hfkv.core.architecture import Architecture
from hfkv.core.engines.engine import Engine
from hfkv.core.stores import Fixed, Grows, Layer, LayerKind, Role, Store

__all__ = ["TRANSFORMERS"]

# Attention is local or sparse, and the cache is plain.
_KEEPS_EVERYTHING = frozenset({"gpt_neo", "led", "big_bird", "doge"})
# `XLNetModel.cache_mem` cuts after it adds: the window is kept whole.
_KEEPS_WHOLE_WINDOW = frozenset({"xlnet"})
# `modeling_recurrent_gemma.py` rolls K-1 columns; every other class keeps K.
_KEEPS_ONE_COLUMN_LESS = frozenset({"recurrent_gemma"})
# The largest ratio whose compressor overlaps blocks (CSA).
_OVERLAPPING = 4


def _windowed(store: Grows, limit: int) -> Grows:
    """Keep W-1 tokens: the current one is added after the mask is applied.

    Source: cache_utils.py, DynamicSlidingWindowLayer.update.
    """
    return replace(store, window=max(limit - 1, 0), chunked=False)


def _text_type(arch: Architecture) -> str:
    return arch.text_model_type or arch.model_type or ""


def _grows(arch: Architecture, layer: Layer, store: Grows) -> tuple[Store, ...]:
    name = _text_type(arch)
    if store.window is not None and name not in _KEEPS_WHOLE_WINDOW:
        if name in _KEEPS_EVERYTHING:
            return (replace(store, window=None),)
        store = _windowed(store, store.window)
    if name == "falcon" and arch.broadcast_heads and store.role is Role.KV:
        return (replace(store, heads=layer.heads),)
    if name == "mpt" and store.role is Role.KV:
        return (replace(store, heads=layer.heads),)
    if name == "qwen4_exp_text" and store.role is Role.INDEX:
        positions = Grows(key=3, role=Role.INDEX, dtype="int64")
        return (store, positions)
    if name == "glm5_next_text" and store.role is Role.INDEX:
        return (replace(store, key=2 * store.key + 1),)
    return (store,)


def _fixed(arch: Architecture, store: Fixed) -> tuple[Store, ...]:
    """Keep K convolution columns where the next step needs K-1."""
    if store.columns is None or _text_type(arch) in _KEEPS_ONE_COLUMN_LESS:
        return (store,)
    channels = store.elements // store.columns if store.columns else (store.heads or 0)
    return (replace(store, elements=channels * (store.columns + 1), columns=store.columns + 1),)


def _compressor(store: Grows) -> tuple[Store, ...]:
    """Return what a DeepSeek-V4 compressor buffers besides its compressed entries.

    Ratio r: inputs and gates of the tokens since the last full block. The overlapping kind
    (CSA and its indexer, r = 4) is twice as wide and carries the last block's half over,
    the gates of it in float32. Source: modeling_deepseek_v4.py.
    """
    overlapping = store.stride <= _OVERLAPPING
    width = store.key * (2 if overlapping else 1)
    buffer = Grows(key=width, value=width, modulo=store.stride, role=store.role)
    if not overlapping:
        return store, buffer
    size = store.stride * store.key
    carried = Fixed(elements=size, role=Role.CONV)
    gates = Fixed(elements=size, role=Role.CONV, dtype="float32")
    return store, buffer, carried, gates


def _deepseek_v4(layer: Layer) -> tuple[Store, ...]:
    kept: list[Store] = []
    for store in layer.stores:
        if not isinstance(store, Grows) or store.stride > 1:
            kept += _compressor(store) if isinstance(store, Grows) else (store,)
            continue
        near = store if store.window is None else _windowed(store, store.window)
        # a window-only layer keeps key and value apart although they are equal
        alone = layer.kind is LayerKind.SLIDING
        kept.append(replace(near, value=near.key) if alone else near)
    return tuple(kept)


def _adapt(arch: Architecture, _index: int, layer: Layer) -> tuple[Store, ...]:
    if _text_type(arch) == "deepseek_v4":
        return _deepseek_v4(layer)
    kept: list[Store] = []
    for store in layer.stores:
        if isinstance(store, Fixed):
            kept += _fixed(arch, store)
        else:
            kept += _grows(arch, layer, store)
    return tuple(kept)


# Its quantized caches keep a full-precision rest and have their own back ends: not sized here.
TRANSFORMERS = Engine(
    name="transformers",
    adapt=_adapt,
    serves_float32=True,
    small_dtype=None,
    weight_formats=("int8", "nf4"),
)
