"""What vLLM keeps of a layer's stores: where its model code leaves the model's need.

Read in vLLM 0.32 (`model_executor/models`, `models`, `model_executor/layers/mamba`) and
confirmed by fixtures/oracle/vllm_kv.json. Packed formats have no element size of their
own, so their rows are counted in bytes (`int8`).
"""

from __future__ import annotations

from hfkv.core.architecture import Architecture
from hfkv.core.dtypes import DType
from hfkv.core.engines.engine import text_type
from hfkv.core.record import replace
from hfkv.core.stores import Fixed, Grows, Layer, LayerKind, Role, Store
from hfkv.errors import UnsupportedError, UsageError

__all__ = ["CACHE_DTYPES", "adapt", "pack"]

# What --kv-cache-dtype offers and hfkv can size. Source: vLLM 0.32 config/cache.py.
CACHE_DTYPES = (
    "float16",
    "bfloat16",
    "fp8",
    "fp8_e4m3",
    "fp8_e5m2",
    "fp8_ds_mla",
    "fp8_per_token_head",
    "int8_per_token_head",
    "int4_per_token_head",
    "nvfp4",
)
_BYTES = "int8"
# Latent attention on paper, ordinary attention in vLLM. Source: models/minicpm3.py.
_UNPACKS_LATENTS = frozenset({"minicpm3", "MiniCPM3ForCausalLM"})
# Rows of full layers are as wide as those of windowed ones. Source: models/dots3_note.
_PADS_LATENTS = frozenset({"dots3_note_text"})
# Linear attention without a convolution, in the model's dtype. Source: bailing_moe_linear.py.
_LIGHTNING = frozenset({"BailingMoeV2_5ForCausalLM"})
# A window of W past tokens and this one. Source: models/commandr.py, cohere2_moe.py.
_SEES_ONE_MORE = frozenset({"cohere2", "cohere2_moe"})
# Even layers are windowed whatever `layer_types` says. Source: models/gpt_oss.py.
_WINDOWS_EVEN_LAYERS = frozenset({"gpt_oss"})
# float32 unless the file says otherwise. Source: models/config.py, NemotronHForCausalLMConfig.
_STATES_FLOAT32 = frozenset({"nemotron_h"})
# What the file says, else the model's. Source: models/config.py, Qwen3_5.
_STATES_AS_STATED = "qwen3_5"
# Kimi delta attention. Source: mamba_utils.py, kda_state_dtype.
_KEEPS_FLOAT32 = frozenset({"kimi_linear", "bailing_hybrid"})
# Index keys beside ordinary attention stay 16 bit. Source: models/minimax_m3/common/indexer.py.
_INDEX_16_BIT = "minimax_m3"
_SCALE = 4  # a float32
_QUANTIZED_BLOCK = 128  # values that share one scale in an index key

# DeepSeek-V4: 448 fp8 values, 64 bf16 for the rotary part, 8 scales in one row.
# Source: models/deepseek_v4/attention.py, compressor.py.
_V4_ROW = 584


def adapt(arch: Architecture, index: int, layer: Layer) -> tuple[Store, ...]:
    """Return what vLLM keeps of a layer, before a cache format packs it."""
    name = text_type(arch)
    if name == "deepseek_v4":
        return _deepseek_v4(layer)
    if layer.stores and not _UNPACKS_LATENTS.isdisjoint((name, arch.class_name)):
        return (_unpacked(arch, layer),)
    stores = _lightning(layer.stores) if arch.class_name in _LIGHTNING else layer.stores
    return tuple(
        _state(arch, name, store) if isinstance(store, Fixed) else _grows(arch, name, index, store)
        for store in stores
    )


def _lightning(stores: tuple[Store, ...]) -> tuple[Store, ...]:
    return tuple(store for store in stores if store.role is not Role.CONV)


def _grows(arch: Architecture, name: str, index: int, store: Grows) -> Grows:
    if name in _WINDOWS_EVEN_LAYERS:
        return replace(store, window=arch.sliding_window if index % 2 == 0 else None)
    if name in _SEES_ONE_MORE and store.window is not None:
        return replace(store, window=store.window + 1)
    if name in _PADS_LATENTS and store.role is Role.LATENT:
        return replace(store, key=_widest_latent(arch))
    if store.role is Role.INDEX:
        if name.startswith(_INDEX_16_BIT):
            return replace(store, dtype="bfloat16")
        return _index_row(store)
    return store


def _widest_latent(arch: Architecture) -> int:
    stores = [store for layer in arch.layers for store in layer.stores]
    return max(s.key for s in stores if isinstance(s, Grows) and s.role is Role.LATENT)


def _index_row(store: Grows) -> Grows:
    """Return index keys in fp8 with a float32 scale for each 128 values.

    Source: vLLM 0.32 models/deepseek_v32, DeepseekV32IndexerCache.
    """
    scales = -(-store.key // _QUANTIZED_BLOCK) * _SCALE
    return replace(store, key=store.key + scales, dtype=_BYTES)


def _state(arch: Architecture, name: str, store: Fixed) -> Fixed:
    """Return a state in the model's dtype, with the few exceptions vLLM makes."""
    if store.role is Role.CONV:
        return replace(store, dtype=None)
    if name in _KEEPS_FLOAT32 and arch.class_name not in _LIGHTNING:
        return store
    dtype = None
    if name in _STATES_FLOAT32:
        dtype = arch.state_dtype or "float32"
    elif name.startswith(_STATES_AS_STATED):
        dtype = arch.state_dtype
    return replace(store, dtype=dtype)


def _unpacked(arch: Architecture, layer: Layer) -> Grows:
    """Return a latent as full heads; values are padded to the width of keys."""
    width = arch.expanded_head_dim
    if width is None:
        raise UnsupportedError(
            "vLLM unpacks this model's latent into full heads, and the config does not say "
            "how wide a head is",
            where="config.json: qk_nope_head_dim",
            code="missing-key",
        )
    return Grows(heads=layer.heads, key=width, value=width)


def _deepseek_v4(layer: Layer) -> tuple[Store, ...]:
    """Return the rows and compressor buffers of one DeepSeek-V4 layer.

    A compressor of ratio r buffers inputs and gates of the last r tokens in float32; the
    overlapping one (r = 4) and its indexer's hold two blocks of twice the width.
    """
    kept: list[Store] = []
    for store in (store for store in layer.stores if isinstance(store, Grows)):
        if store.role is Role.INDEX:
            kept.append(_index_row(store))
        else:
            kept.append(replace(store, key=_V4_ROW, role=Role.LATENT, dtype=_BYTES, heads=None))
        if store.stride > 1:
            blocks = 2 if store.stride <= 4 else 1
            kept.append(
                Grows(
                    key=blocks * store.key,
                    value=blocks * store.key,
                    window=blocks * store.stride,
                    role=Role.STATE,
                    dtype="float32",
                )
            )
    return tuple(kept)


def pack(layer: Layer, stores: tuple[Store, ...], cache: DType) -> tuple[Store, ...]:
    """Return a layer's stores as a cache format lays them out.

    fp8 of sparse latents is `fp8_ds_mla`: 512 fp8 values, 4 float32 scales and 64 bf16
    values. Per-token-head formats put a float32 scale behind each key and each value.
    Source: vLLM 0.32 attention/mla_attention.py, attention/backends/triton_attn.py.
    """
    return tuple(
        _packed(layer, store, cache) if isinstance(store, Grows) and store.dtype is None else store
        for store in stores
    )


def _packed(layer: Layer, store: Grows, cache: DType) -> Grows:
    if cache.name in ("fp8_ds_mla", "fp8", "fp8_e4m3") and layer.kind is LayerKind.SPARSE_LATENT:
        return replace(store, key=656, dtype=_BYTES)
    if cache.name == "fp8_ds_mla" or (cache.name == "nvfp4" and store.role is Role.LATENT):
        raise UsageError(
            f"vLLM does not keep this model's cache in {cache.name}",
            hint="--kv-dtype fp8 is what it offers for this attention",
            code="kv-dtype",
        )
    if not cache.name.endswith("_per_token_head"):
        return store
    if store.role is Role.LATENT:
        raise UsageError(
            f"vLLM keeps no latent cache in {cache.name}",
            hint="--kv-dtype fp8 is what it offers for this attention",
            code="kv-dtype",
        )
    return replace(
        store,
        key=cache.size(store.key) + _SCALE,
        value=cache.size(store.value) + _SCALE,
        dtype=_BYTES,
    )
