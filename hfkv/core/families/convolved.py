"""Families whose layers keep a cache of tokens and convolution inputs at once."""

from __future__ import annotations

from hfkv.core import kinds
from hfkv.core.config import Config
from hfkv.core.families.family import Family, generic_layer
from hfkv.core.patterns import HYBRID, from_indexes, layer_count, layer_names
from hfkv.core.stores import Fixed, Grows, Layer, LayerKind

__all__ = ["CONVOLVED"]

_HF = "transformers 5.24, {}"


def _zaya(cfg: Config, name: str) -> Layer:
    """ZAYA: compressed convolutional attention keeps past inputs of two convolutions.

    Source: transformers 5.24 modeling_zaya.py.
    """
    if name != HYBRID:
        return generic_layer(cfg, name)
    attention = kinds.attention(cfg, limit=kinds.window(cfg))
    dim, count = kinds.head_dim(cfg), kinds.key_value_heads(cfg)
    columns = (cfg.count("cca_time0") or 0) + (cfg.count("cca_time1") or 0) - 2
    channels = (kinds.heads(cfg) + count) * dim
    past = Fixed(elements=channels * max(columns, 0), heads=channels)
    value = Fixed(elements=count * dim // 2, heads=count)
    return Layer(
        kind=LayerKind.HYBRID, stores=(*attention.stores, past, value), heads=attention.heads
    )


def _inkling(cfg: Config, name: str) -> Layer:
    """Inkling: attention beside four float32 short convolutions (k, v and two hidden ones).

    Window layers take `swa_*` heads and dims. Source: transformers 5.24 modeling_inkling.py.
    """
    if name not in (HYBRID, "hybrid_sliding"):
        return generic_layer(cfg, name)
    near = name == "hybrid_sliding"
    dim = (cfg.positive("swa_head_dim") if near else None) or kinds.head_dim(cfg)
    count = cfg.positive("swa_num_key_value_heads") if near else None
    count = count or kinds.key_value_heads(cfg)
    store = Grows(heads=count, key=dim, value=dim, window=kinds.window(cfg) if near else None)
    hidden, kernel = cfg.need("hidden_size"), cfg.need("conv_kernel_size")
    convs = [
        kinds.conv_state(channels, kernel, dtype=kinds.FLOAT32)
        for channels in (count * dim, count * dim, hidden, hidden)
    ]
    return Layer(kind=LayerKind.HYBRID, stores=(store, *convs), heads=kinds.heads(cfg))


def _inkling_names(cfg: Config, count: int) -> list[str] | None:
    """Inkling: `local_layer_ids` lists the window layers."""
    indexes = cfg.counts("local_layer_ids")
    if indexes is None:
        return None
    where = cfg.where("local_layer_ids")
    return from_indexes(indexes, count=count, where=where, special="hybrid_sliding", other=HYBRID)


def _inkling_loop(cfg: Config) -> tuple[Layer, ...]:
    """Inkling-2 loop: the layers from start to end run several times, each with its own cache."""
    count = layer_count(cfg)
    names = layer_names(cfg, _inkling_names)
    loop = cfg.part("loop_config") or cfg
    start, end = loop.count("loop_layer_index_start"), loop.count("loop_layer_index_end")
    passes = loop.positive("loop_num_passes") or 1
    one = [_inkling(cfg.at(i), name) for i, name in enumerate(names)]
    if start is None or end is None or not start < end <= count or passes * count > 10_000:
        return tuple(one)
    return (*one[:end], *(one[start:end] * (passes - 1)), *one[end:])


def _yuan(cfg: Config, name: str) -> Layer:
    """Yuan 2.0: localized filtering in front of attention needs the last two hidden states.

    Source: IEITYuan/Yuan2-2B-hf yuan_hf_model.py, before_hidden_states[:, -2:, :].
    """
    base = generic_layer(cfg, name)
    past = kinds.conv_state(cfg.need("hidden_size"), 3)
    return Layer(kind=base.kind, stores=(*base.stores, past), heads=base.heads)


def _all_hybrid(_cfg: Config, count: int) -> list[str]:
    return [HYBRID] * count


CONVOLVED: tuple[Family, ...] = (
    Family(
        name="yuan",
        model_types=("yuan",),
        source="IEITYuan/Yuan2-2B-hf yuan_hf_model.py",
        layer=_yuan,
        layer_kinds=(LayerKind.FULL,),
    ),
    Family(
        name="zaya",
        model_types=("zaya",),
        source=_HF.format("modeling_zaya.py"),
        names=_all_hybrid,
        layer=_zaya,
    ),
    Family(
        name="inkling",
        model_types=("inkling_text", "inkling2_text"),
        source=_HF.format("modeling_inkling.py"),
        names=_inkling_names,
        layer=_inkling,
    ),
    Family(
        name="inkling2_loop",
        model_types=("inkling2_loop_text",),
        source=_HF.format("modeling_inkling2_loop.py"),
        whole=_inkling_loop,
    ),
)
