"""Families whose layers keep a state instead of, or beside, a cache of tokens."""

from __future__ import annotations

from collections.abc import Callable

from hfkv.core import kinds
from hfkv.core.config import Config
from hfkv.core.counts import counted
from hfkv.core.families.family import Family, generic_layer, linear
from hfkv.core.patterns import (
    CONV,
    HYBRID,
    LINEAR,
    SLIDING,
    class_pattern,
    from_indexes,
    layer_count,
)
from hfkv.core.stores import Fixed, Grows, Layer, LayerKind, Store
from hfkv.errors import UnsupportedError

__all__ = ["RECURRENT"]

_HF = "transformers 5.24, {}"


def _both(attention: Layer, mixer: Layer) -> Layer:
    """Return a layer that runs attention and a mixer side by side."""
    stores = (*attention.stores, *mixer.stores)
    return Layer(kind=LayerKind.HYBRID, stores=stores, heads=attention.heads)


def _parallel(cfg: Config, name: str) -> Layer:
    """Falcon-H1: every layer runs attention and Mamba-2 side by side."""
    return _both(kinds.attention(cfg), kinds.mamba2(cfg)) if name == HYBRID else _mixer(cfg, name)


def _mixer(cfg: Config, name: str) -> Layer:
    return linear(cfg) if name == LINEAR else generic_layer(cfg, name)


def _always(name: str) -> Callable[[Config, int], list[str]]:
    def names(_cfg: Config, count: int) -> list[str]:
        return [name] * count

    return names


def _inner_mamba(cfg: Config, name: str) -> Layer:
    """Mamba-1 alone: `intermediate_size` is the inner width (`expand` may contradict it)."""
    if name != LINEAR:
        return generic_layer(cfg, name)
    return kinds.mamba1(cfg.spelled({"mamba_inner_size": "intermediate_size"}))


def _jamba_layer(cfg: Config, name: str) -> Layer:
    return kinds.mamba1(cfg) if name == LINEAR else generic_layer(cfg, name)


def _mamba2_layer(cfg: Config, name: str) -> Layer:
    return kinds.mamba2(cfg) if name == LINEAR else generic_layer(cfg, name)


def _zamba_names(cfg: Config, count: int) -> list[str]:
    """Zamba: two Mamba layers and a hybrid one, then a hybrid one every `attn_layer_period`."""
    step = cfg.positive("attn_layer_period") or 6
    offset = cfg.count("attn_layer_offset") or 0
    rest = [HYBRID if i % step == offset else LINEAR for i in range(max(count - 3, 0))]
    return [LINEAR, LINEAR, HYBRID, *rest][:count]


def _zamba_attention(cfg: Config) -> Layer:
    """Return the shared attention block of Zamba: it sees twice the hidden width."""
    dim = cfg.positive("head_dim")
    if dim is None:
        width = cfg.positive("attention_hidden_size") or 2 * cfg.need("hidden_size")
        dim = kinds.per_head(cfg, width, kinds.heads(cfg), what="attention width", exact=False)
        cfg.note("head_dim", dim, "2 x hidden_size / num_attention_heads")
    store = Grows(heads=kinds.key_value_heads(cfg), key=dim, value=dim)
    return Layer(kind=LayerKind.FULL, stores=(store,), heads=kinds.heads(cfg))


def _zamba(cfg: Config, name: str) -> Layer:
    mixer = kinds.mamba1(cfg)
    return _both(_zamba_attention(cfg), mixer) if name == HYBRID else mixer


def _zamba2_names(cfg: Config, count: int) -> list[str] | None:
    """Zamba2: `hybrid_layer_ids` lists the layers that call a shared attention block."""
    indexes = cfg.counts("hybrid_layer_ids")
    if indexes is not None:
        where = cfg.where("hybrid_layer_ids")
        return from_indexes(indexes, count=count, where=where, special=HYBRID)
    return class_pattern(cfg, count)


def _zamba2(cfg: Config, name: str) -> Layer:
    mixer = kinds.mamba2(cfg)
    return _both(_zamba_attention(cfg), mixer) if name == HYBRID else mixer


def _minimax_names(cfg: Config, _count: int) -> list[str] | None:
    """MiniMax's own files list `attn_type_list`; without it nothing says which layers are full."""
    if cfg.model_type == "minimax":
        return None
    raise UnsupportedError(
        "nothing states which layers have full attention",
        where=cfg.where("attn_type_list"),
        code="missing-key",
    )


def _lightning(cfg: Config, name: str) -> Layer:
    return kinds.lightning(cfg) if name == LINEAR else generic_layer(cfg, name)


def _recurrent_gemma_names(cfg: Config, count: int) -> list[str] | None:
    """RecurrentGemma: `block_types` repeats over the layers."""
    block = cfg.items("block_types")
    if not block:
        return None
    cycle = [SLIDING if kind == "attention" else LINEAR for kind in block]
    return (cycle * (count // len(cycle) + 1))[:count]


def _recurrent_gemma(cfg: Config, name: str) -> Layer:
    """RG-LRU: one float32 value per channel and K-1 convolution inputs (Griffin paper)."""
    if name != LINEAR:
        return generic_layer(cfg, name)
    width = cfg.positive("lru_width") or cfg.need("hidden_size")
    conv = kinds.conv_state(width, cfg.need("conv1d_width"))
    state = Fixed(elements=width, heads=width, dtype=kinds.FLOAT32)
    return Layer(kind=LayerKind.LINEAR, stores=(conv, state))


def _rwkv4(cfg: Config) -> tuple[Layer, ...]:
    """RWKV-4: two shifted inputs in the model's dtype and three float32 vectors a layer."""
    hidden = cfg.need("hidden_size")
    inner = cfg.positive("attention_hidden_size") or hidden
    stores: tuple[Store, ...] = (
        Fixed(elements=2 * hidden, heads=hidden),
        Fixed(elements=3 * inner, heads=inner, dtype=kinds.FLOAT32),
    )
    return (Layer(kind=LayerKind.LINEAR, stores=stores),) * layer_count(cfg)


def _rwkv5(cfg: Config) -> tuple[Layer, ...]:
    """RWKV-5/6: two shifted inputs and a float32 matrix of head_size^2 per head.

    Source: RWKV/rwkv-5-world modeling_rwkv5.py, init of state; Eagle and Finch paper
    (arXiv 2404.05892).
    """
    hidden = cfg.need("hidden_size")
    inner = cfg.positive("attention_hidden_size") or hidden
    size = cfg.positive("head_size") or 64
    heads, rest = divmod(inner, size)
    if rest:
        raise UnsupportedError(
            f"attention_hidden_size {inner} does not divide by head_size {size}",
            where=cfg.where("head_size"),
            code="contradiction",
        )
    stores: tuple[Store, ...] = (
        Fixed(elements=2 * hidden, heads=hidden),
        Fixed(elements=heads * size * size, heads=heads, dtype=kinds.FLOAT32),
    )
    return (Layer(kind=LayerKind.LINEAR, stores=stores),) * layer_count(cfg)


def _xlstm(cfg: Config) -> tuple[Layer, ...]:
    """xLSTM: matrix memory, normalizer and maximum per head, in the model's dtype.

    Source: transformers 5.24 modeling_xlstm.py; xLSTM paper (arXiv 2405.04517).
    """
    heads = kinds.heads(cfg)
    query = _xlstm_width(cfg, "qk_dim_factor", (1, 2), heads)
    value = _xlstm_width(cfg, "v_dim_factor", (1, 1), heads)
    state = Fixed(elements=heads * (query * value + query + 1), heads=heads)
    layer = Layer(kind=LayerKind.LINEAR, stores=(state,))
    return (layer,) * layer_count(cfg)


def _xlstm_width(cfg: Config, name: str, default: tuple[int, int], heads: int) -> int:
    """Return the width of one head: hidden x factor (0.5, exactly), rounded up to 64s, shared out.

    Source: transformers 5.24 configuration_xlstm.py, qk_dim and v_dim.
    """
    value, hidden = cfg.raw(name), cfg.need("hidden_size")
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 64:
        top, bottom = value.as_integer_ratio()
    else:
        top, bottom = default
    width = -(-(hidden * top // bottom) // 64) * 64
    found, rest = divmod(width, heads)
    if rest or not found:
        raise UnsupportedError(
            f"a width of {width} does not divide by {counted(heads, 'head')}",
            where=cfg.where(name),
            code="contradiction",
        )
    return found


def _lfm2(cfg: Config, name: str) -> Layer:
    return kinds.short_conv(cfg) if name in (CONV, LINEAR) else generic_layer(cfg, name)


def _olmo_hybrid(cfg: Config, name: str) -> Layer:
    """OLMo-hybrid: gated delta layers as wide as the attention, 3/4 keys and 3/2 values.

    Absent sizes come from hidden_size and heads. Source: configuration_olmo_hybrid.py.
    """
    if name != LINEAR:
        return generic_layer(cfg, name)
    heads = kinds.heads(cfg)
    keys = cfg.positive("linear_num_key_heads") or heads
    values = cfg.positive("linear_num_value_heads") or heads
    key_dim = cfg.positive("linear_key_head_dim") or kinds.per_head(
        cfg,
        3 * cfg.need("hidden_size") // 4,
        keys,
        what="key width",
        key="linear_key_head_dim",
        exact=False,
    )
    value_dim = cfg.positive("linear_value_head_dim") or 2 * key_dim
    conv = kinds.conv_state(
        2 * keys * key_dim + values * value_dim, cfg.need("linear_conv_kernel_dim")
    )
    state = Fixed(elements=values * key_dim * value_dim, heads=values, dtype=kinds.FLOAT32)
    return Layer(kind=LayerKind.LINEAR, stores=(conv, state))


RECURRENT: tuple[Family, ...] = (
    Family(
        name="mamba",
        model_types=("mamba", "falcon_mamba"),
        source=_HF.format("modeling_mamba.py"),
        names=_always(LINEAR),
        layer=_inner_mamba,
    ),
    Family(
        name="mamba2",
        model_types=("mamba2",),
        source=_HF.format("modeling_mamba2.py"),
        names=_always(LINEAR),
        layer=_mamba2_layer,
        aliases={"mamba_num_heads": "num_heads", "mamba_head_dim": "head_dim"},
    ),
    Family(
        name="jamba",
        model_types=("jamba",),
        source=_HF.format("modeling_jamba.py"),
        layer=_jamba_layer,
    ),
    Family(
        name="mamba2_hybrid",
        model_types=("bamba", "nemotron_h", "granitemoehybrid"),
        source=_HF.format("modeling_bamba.py, modeling_nemotron_h.py"),
        layer=_mamba2_layer,
    ),
    Family(
        name="falcon_h1",
        model_types=("falcon_h1",),
        source=_HF.format("modeling_falcon_h1.py"),
        names=_always(HYBRID),
        layer=_parallel,
    ),
    Family(
        name="zamba",
        model_types=("zamba",),
        source=_HF.format("modeling_zamba.py"),
        names=_zamba_names,
        layer=_zamba,
    ),
    Family(
        name="zamba2",
        model_types=("zamba2",),
        source=_HF.format("modeling_zamba2.py"),
        names=_zamba2_names,
        layer=_zamba2,
    ),
    Family(
        name="minimax",
        model_types=("minimax", "minimax_m1", "minimax_text_01"),
        source=_HF.format("modeling_minimax.py"),
        names=_minimax_names,
        layer=_lightning,
    ),
    Family(
        name="recurrent_gemma",
        model_types=("recurrent_gemma",),
        source=_HF.format("modeling_recurrent_gemma.py"),
        names=_recurrent_gemma_names,
        layer=_recurrent_gemma,
    ),
    Family(name="rwkv", model_types=("rwkv",), source=_HF.format("modeling_rwkv.py"), whole=_rwkv4),
    Family(
        name="rwkv5",
        model_types=("rwkv5", "rwkv6"),
        source="RWKV/rwkv-5-world-1b5 modeling_rwkv5.py; arXiv 2404.05892",
        whole=_rwkv5,
        layer_kinds=(LayerKind.LINEAR,),
    ),
    Family(
        name="xlstm", model_types=("xlstm",), source=_HF.format("modeling_xlstm.py"), whole=_xlstm
    ),
    Family(
        name="lfm2",
        model_types=("lfm2", "lfm2_moe", "lfm3"),
        source=_HF.format("modeling_lfm2.py"),
        layer=_lfm2,
    ),
    Family(
        name="olmo_hybrid",
        model_types=("olmo_hybrid",),
        source=_HF.format("configuration_olmo_hybrid.py"),
        layer=_olmo_hybrid,
    ),
)
