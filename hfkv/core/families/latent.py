"""Families with latent, indexed or compressed caches that leave the generic reading."""

from __future__ import annotations

from typing import Any

from hfkv.core import kinds
from hfkv.core.config import Config
from hfkv.core.counts import counted
from hfkv.core.families.family import Family, generic_layer, indexed
from hfkv.core.patterns import FULL, INDEXED, LINEAR, SLIDING, class_pattern, layer_count
from hfkv.core.stores import Fixed, Grows, Layer, LayerKind, Role
from hfkv.errors import UnsupportedError

__all__ = ["LATENT"]

_HF = "transformers 5.24, {}"

_CSA = "compressed_sparse_attention"
_HCA = "heavily_compressed_attention"
# Tokens per stored entry when the file does not say. Source: DeepSeek-V4 config class.
_RATES = {_CSA: 4, _HCA: 128}


def _v4_names(cfg: Config, count: int) -> list[str] | None:
    """DeepSeek-V4 on the Hub: `compress_ratios`, 0 = window only, 4 = CSA, 128 = HCA.

    The list may have one entry more, for the MTP layer.
    """
    ratios = cfg.counts("compress_ratios")
    if ratios is None:
        return None
    if len(ratios) < count:
        raise UnsupportedError(
            f"has {counted(len(ratios), 'entry')} for {counted(count, 'layer')}",
            where=cfg.where("compress_ratios"),
        )
    sparse = cfg.positive("compress_rate_csa") or _RATES[_CSA]
    return [SLIDING if not r else _CSA if r <= sparse else _HCA for r in ratios[:count]]


def _v4_ratio(cfg: Config, name: str) -> int:
    ratios = cfg.counts("compress_ratios")
    if ratios and cfg.layer is not None and cfg.layer < len(ratios) and ratios[cfg.layer]:
        return ratios[cfg.layer]
    rates = cfg.part("compress_rates")
    stated = rates.positive(name) if rates else None
    key = "compress_rate_csa" if name == _CSA else "compress_rate_hca"
    return stated or cfg.positive(key) or _RATES[name]


def _v4(cfg: Config, name: str) -> Layer:
    """DeepSeek-V4: one vector is key and value; a window of it, and one entry per r tokens.

    CSA layers also keep an index key per entry. Source: DeepSeek-V4 report, section on
    compressed attention; public calculator kvcache-ai/kvcache-blog for the counts.
    """
    dim = kinds.head_dim(cfg)
    near = Grows(key=dim, window=kinds.window(cfg), role=Role.KV)
    if name == SLIDING:
        return Layer(kind=LayerKind.SLIDING, stores=(near,), heads=kinds.heads(cfg))
    if name not in _RATES:
        return generic_layer(cfg, name)
    ratio = _v4_ratio(cfg, name)
    far = Grows(key=dim, stride=ratio, role=Role.KV)
    stores: tuple[Grows, ...] = (near, far)
    if name == _CSA:
        stores += (Grows(key=cfg.need("index_head_dim"), stride=ratio, role=Role.INDEX),)
    return Layer(kind=LayerKind.COMPRESSED, stores=stores, heads=kinds.heads(cfg))


def _indexer_type(cfg: Config, *, offset: int) -> str:
    """Return "full" or "shared" for this layer, by list, by pattern or by frequency.

    The first `offset` layers and then every `index_topk_freq`-th one select anew; a
    pattern spells it with F and S. Source: transformers 5.24 configuration_glm_moe_dsa.py.
    """
    layer = cfg.layer or 0
    types = cfg.items("indexer_types")
    if types is not None:
        listed = cfg.entry("indexer_types")
        if listed not in ("full", "shared"):
            raise UnsupportedError(
                f"does not say full or shared for layer {layer}", where=cfg.where("indexer_types")
            )
        return str(listed)
    pattern: Any = cfg.raw("index_topk_pattern")
    if isinstance(pattern, (str, list)) and pattern:
        letter = pattern[layer] if layer < len(pattern) else "F"
        return "shared" if letter in ("S", "shared") else "full"
    step = cfg.positive("index_topk_freq") or 1
    stated = cfg.count("index_skip_topk_offset")
    skip = offset if stated is None else stated
    return "full" if max(layer - skip + 1, 0) % step == 0 else "shared"


def _without_index(layer: Layer) -> Layer:
    stores = tuple(s for s in layer.stores if s.role is not Role.INDEX)
    return Layer(kind=layer.kind, stores=stores, heads=layer.heads)


def _dsa(cfg: Config, name: str) -> Layer:
    """GLM-5 and kin: latent attention where only some layers keep index keys of their own."""
    if name != INDEXED:
        return generic_layer(cfg, name)
    layer = indexed(cfg)
    return layer if _indexer_type(cfg, offset=2) == "full" else _without_index(layer)


def _hy_v4(cfg: Config, name: str) -> Layer:
    """Hunyuan 4: without a list, layer 0 and then every 4th from layer 1 select anew."""
    if name != INDEXED:
        return generic_layer(cfg, name)
    layer, at = indexed(cfg), cfg.layer or 0
    if cfg.items("indexer_types") is not None or at == 0 or at % 4 == 1:
        return layer
    return _without_index(layer)


def _mistral_large4(cfg: Config, name: str) -> Layer:
    """Mistral Large 4: some layers read another layer's latent, some have no rope part."""
    if name != INDEXED:
        return generic_layer(cfg, name)
    for key in ("no_rope_layers", "kv_source_layers"):
        _enough(cfg, key, cfg.positive("num_hidden_layers") or 0)
    rope = cfg.entry("no_rope_layers")
    if rope is None:
        rope = ((cfg.layer or 0) + 1) % (cfg.positive("no_rope_layer_interval") or 4) != 0
    source = cfg.entry("kv_source_layers")
    own = source is None or source == cfg.layer
    base = kinds.latent(cfg, rope=bool(rope))
    stores = base.stores if own else ()
    if _indexer_type(cfg, offset=2) == "full":
        stores += (kinds.index_store(cfg),)
    kind = LayerKind.SPARSE_LATENT if stores else LayerKind.SHARED
    return Layer(kind=kind, stores=stores, heads=base.heads)


def _dots3_names(cfg: Config, count: int) -> list[str] | None:
    """dots3-note with `use_dsa` off: nothing is indexed, and the windows stay."""
    if cfg.values.get("use_dsa") is not False:
        return None
    names = class_pattern(cfg, count) or []
    return [FULL if name == INDEXED else name for name in names]


def _dots3(cfg: Config, name: str) -> Layer:
    """dots3-note: window layers have latent dims of their own (`swa_*` on the Hub).

    Without either spelling they are the class's: 64 heads, rank 1024, rope 64. Index keys
    stay float32.
    """
    if name == SLIDING and kinds.window(cfg) is None:
        name = FULL
    # released files call indexed layers full_attention
    if name == INDEXED or (name == FULL and cfg.values.get("use_dsa") is not False):
        base = indexed(cfg)
        stores = tuple(
            kinds.index_store(cfg, dtype="float32") if s.role is Role.INDEX else s
            for s in base.stores
        )
        return Layer(kind=base.kind, stores=stores, heads=base.heads)
    if name != SLIDING or isinstance(cfg.values.get("per_layer_config"), dict):
        return generic_layer(cfg, name)
    rank = cfg.positive("swa_kv_lora_rank") or 1024
    stated = cfg.count("swa_qk_rope_head_dim")
    width = rank + (64 if stated is None else stated)
    store = Grows(key=width, window=kinds.window(cfg), role=Role.LATENT)
    return Layer(kind=LayerKind.LATENT, stores=(store,), heads=kinds.heads(cfg))


def _kimi(cfg: Config, name: str) -> Layer:
    """Kimi-Linear and GLM-5-next: delta-attention sizes may sit in `linear_attn_config`."""
    part = cfg.part("linear_attn_config")
    if name == LINEAR and part is not None and part.positive("num_heads"):
        count, dim = part.need("num_heads"), part.need("head_dim")
        kernel = part.positive("short_conv_kernel_size") or cfg.need("linear_conv_kernel_dim")
        return kinds.kda(count, dim, kernel)
    if name == INDEXED or (name == FULL and cfg.model_type == "glm5_next_text"):
        return _dsa(cfg, INDEXED)  # released GLM-5-next files call them full_attention
    return generic_layer(cfg, name)


def _bailing_hybrid(cfg: Config, name: str) -> Layer:
    """Ling-2.5 hybrids: lightning layers shaped like delta attention, over all heads."""
    if name != LINEAR:
        return generic_layer(cfg, name)
    dim = cfg.positive("linear_head_dim") or kinds.head_dim(cfg)
    kernel = cfg.positive("short_conv_kernel_size") or 4
    return kinds.kda(kinds.heads(cfg), dim, kernel)


def _qwen4(cfg: Config, name: str) -> Layer:
    """Qwen4-exp: grouped-query attention with index keys of `indexer_head_dim`.

    Released files call these layers full_attention, later ones hybrid_indexed where they have
    per-layer embeddings too.
    """
    extra = _per_layer_embedding(cfg)
    if name not in (INDEXED, FULL, "hybrid_indexed"):
        base = generic_layer(cfg, name)
        return Layer(kind=base.kind, stores=(*base.stores, *extra), heads=base.heads)
    base = kinds.attention(cfg)
    width = cfg.positive("indexer_head_dim") or kinds.head_dim(cfg)
    heads = cfg.positive("indexer_kv_heads") or 1
    index = kinds.index_store(cfg, width=heads * width)
    return Layer(kind=base.kind, stores=(*base.stores, index, *extra), heads=base.heads)


def _per_layer_embedding(cfg: Config) -> tuple[Fixed, ...]:
    """Return what Qwen4-exp's n-gram embeddings keep in the layers of `ple_layer_ids` (from 1).

    A convolution of kernel K over all residual streams, dilated by the n-gram size N, needs
    (K-1) N columns; the embedding itself needs the last N-1 token ids.
    Source: transformers 5.24 modeling_qwen4_exp.py, Qwen4ExpPLELayer, Qwen4ExpNGramEmbedding.
    """
    if (cfg.layer or 0) + 1 not in (cfg.counts("ple_layer_ids") or ()):
        return ()
    size = cfg.positive("ngram_size") or 3
    columns = ((cfg.positive("ple_conv_kernel_size") or 4) - 1) * size
    channels = (cfg.positive("hc_count") or 4) * cfg.need("hidden_size")
    return (
        Fixed(elements=channels * columns, role=Role.CONV),
        Fixed(elements=size - 1, role=Role.CONV, dtype="int64"),
    )


def _minimax_m3(cfg: Config, name: str) -> Layer:
    """MiniMax-M3: sparse layers add one index key per token to ordinary attention.

    The Hub marks them in `sparse_attention_config.sparse_attention_freq`, one 0/1 a layer.
    """
    part = cfg.part("sparse_attention_config")
    marks = part.counts("sparse_attention_freq") if part else None
    if part is not None:
        _enough(part, "sparse_attention_freq", cfg.positive("num_hidden_layers") or 0)
    at = cfg.layer or 0
    marked = bool(marks and at < len(marks) and marks[at])
    if not marked and name not in (INDEXED, "minimax_m3_sparse"):
        return generic_layer(cfg, name)
    base = kinds.attention(cfg)
    width = (part.positive("sparse_index_dim") if part else None) or cfg.need("index_head_dim")
    index = kinds.index_store(cfg, width=width)
    return Layer(kind=base.kind, stores=(*base.stores, index), heads=base.heads)


def _enough(cfg: Config, name: str, count: int) -> None:
    """Refuse a per-layer list that is shorter than the layers."""
    values = cfg.items(name)
    if values is not None and len(values) < count:
        raise UnsupportedError(
            f"has {counted(len(values), 'entry')} for {counted(count, 'layer')}",
            where=cfg.where(name),
        )


def _longcat(cfg: Config) -> tuple[Layer, ...]:
    """LongCat-Flash: every block holds two latent attentions.

    `num_layers` counts blocks; a file that states only `num_hidden_layers` counts both.
    Source: LongCat-Flash report (arXiv 2509.01322); transformers 5.24.
    """
    if cfg.given("num_layers") is None and cfg.given("num_hidden_layers") is not None:
        count = layer_count(cfg)
    else:
        count = 2 * (cfg.positive("num_layers") or layer_count(cfg))
    return tuple(kinds.latent(cfg.at(i)) for i in range(count))


LATENT: tuple[Family, ...] = (
    Family(
        name="deepseek_v4",
        model_types=("deepseek_v4",),
        source=_HF.format("modeling_deepseek_v4.py"),
        names=_v4_names,
        layer=_v4,
    ),
    Family(
        name="glm_moe_dsa",
        model_types=("glm_moe_dsa",),
        source=_HF.format("configuration_glm_moe_dsa.py"),
        layer=_dsa,
    ),
    Family(
        name="hy_v4",
        model_types=("hy_v4", "hy_v4_vl_text"),
        source=_HF.format("configuration_hy_v4.py"),
        layer=_hy_v4,
    ),
    Family(
        name="mistral_large4",
        model_types=("mistral_large4_text",),
        source=_HF.format("modeling_mistral_large4.py"),
        layer=_mistral_large4,
    ),
    Family(
        name="dots3_note",
        model_types=("dots3_note_text",),
        source=_HF.format("configuration_dots3_note.py"),
        names=_dots3_names,
        layer=_dots3,
    ),
    Family(
        name="kimi_linear",
        model_types=("kimi_linear", "glm5_next_text"),
        source=_HF.format("configuration_kimi_linear.py, configuration_glm5_next.py"),
        layer=_kimi,
    ),
    Family(
        name="bailing_hybrid",
        model_types=("bailing_hybrid",),
        source=_HF.format("modeling_bailing_hybrid.py"),
        layer=_bailing_hybrid,
    ),
    Family(
        name="qwen4_exp",
        model_types=("qwen4_exp_text",),
        source=_HF.format("modeling_qwen4_exp.py"),
        layer=_qwen4,
    ),
    Family(
        name="minimax_m3",
        model_types=("minimax_m3_vl_text", "minimax_m3", "minimax_m3_text"),
        source=_HF.format("modeling_minimax_m3_vl.py"),
        layer=_minimax_m3,
    ),
    Family(
        name="longcat_flash",
        model_types=("longcat_flash", "longcat_flash_ngram"),
        source=_HF.format("configuration_longcat_flash.py"),
        whole=_longcat,
    ),
)
