"""What a family row is, and the generic reading that a row may bend.

A row holds only what a config file does not say. Everything it leaves out is read the
generic way: names from `patterns`, one kind per name from the table below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from hfkv.core import kinds
from hfkv.core.config import Config
from hfkv.core.counts import counted
from hfkv.core.patterns import (
    CHUNKED,
    CONV,
    FULL,
    INDEXED,
    LINEAR,
    NONE,
    SLIDING,
    Reader,
    layer_count,
    layer_names,
)
from hfkv.core.record import dataclass
from hfkv.core.stores import Layer, LayerKind
from hfkv.errors import UnsupportedError

__all__ = ["Family", "generic_layer", "indexed", "linear", "plain_layers", "read_layers"]

LayerReader = Callable[[Config, str], Layer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One row: the model types it is true of, and where they leave the generic reading.

    `names` is the pattern when the file lists no layers; `layer` reads one layer of a given
    name; `whole` reads all layers of an irregular family; `aliases` are spellings that mean
    something else elsewhere; `kind` is decoder, encoder, encoder-decoder or other;
    `layer_kinds` is stated only where no class default shows it (remote code).
    `source` says where the rule was read.
    """

    name: str
    model_types: tuple[str, ...]
    source: str
    names: Reader | None = None
    layer: LayerReader | None = None
    whole: Callable[[Config], tuple[Layer, ...]] | None = None
    aliases: dict[str, str] = field(default_factory=dict)
    kind: str = "decoder"
    layer_kinds: tuple[LayerKind, ...] = ()


def full(cfg: Config) -> Layer:
    """Read a layer that attends to everything."""
    return kinds.attention(cfg)


def sliding(cfg: Config) -> Layer:
    """Read a layer that attends to a window (to everything where the window is null)."""
    return kinds.attention(cfg, limit=kinds.window(cfg))


def chunked(cfg: Config) -> Layer:
    """Read a layer that attends inside chunks (Llama 4)."""
    return kinds.attention(cfg, limit=cfg.positive("attention_chunk_size"), chunked=True)


def indexed(cfg: Config) -> Layer:
    """Read a layer of sparse attention: its cache and the index keys that select from it.

    A layer whose `indexer_types` entry is "shared" reuses another layer's selection.
    Source: DeepSeek-V3.2 report; transformers 5.24 modeling_glm_moe_dsa.py.
    """
    base = kinds.attention(cfg)
    kind = LayerKind.SPARSE_LATENT if base.kind is LayerKind.LATENT else base.kind
    if cfg.entry("indexer_types") == "shared":
        return Layer(kind=kind, stores=base.stores, heads=base.heads)
    return Layer(kind=kind, stores=(*base.stores, kinds.index_store(cfg)), heads=base.heads)


def linear(cfg: Config) -> Layer:
    """Read a recurrent layer by the sizes its config states."""
    if cfg.positive("linear_num_value_heads"):
        return kinds.gated_delta(cfg)
    count, dim = cfg.positive("linear_num_heads"), cfg.positive("linear_head_dim")
    if count and dim:
        return kinds.kda(count, dim, cfg.need("linear_conv_kernel_dim"))
    if cfg.positive("mamba_num_heads") and cfg.positive("mamba_n_groups"):
        return kinds.mamba2(cfg)
    if cfg.positive("state_size"):
        return kinds.mamba1(cfg)
    raise UnsupportedError(
        "a layer is recurrent, and the config states no state size that hfkv knows",
        where=cfg.where("layer_types"),
        hint="weights are still exact; tell us about this model type",
        code="unknown-state",
    )


_BY_NAME: dict[str, Callable[[Config], Layer]] = {
    FULL: full,
    SLIDING: sliding,
    CHUNKED: chunked,
    INDEXED: indexed,
    LINEAR: linear,
    CONV: kinds.short_conv,
}


def generic_layer(cfg: Config, name: str) -> Layer:
    """Read one layer by its type name; raises UnsupportedError for a name hfkv does not know."""
    if name == NONE:
        return kinds.nothing()
    reader = _BY_NAME.get(name)
    if reader is None:
        raise UnsupportedError(
            f"unknown layer type '{name:.40}'",
            where=cfg.where("layer_types"),
            hint="weights are still exact; tell us about this model type",
            code="unknown-layer-type",
        )
    return reader(cfg)


def plain_layers(cfg: Config, count: int | None = None) -> tuple[Layer, ...]:
    """Return full attention on every layer."""
    total = layer_count(cfg) if count is None else count
    return tuple(full(cfg.at(i)) for i in range(total))


def _share_last(cfg: Config, layers: list[Layer]) -> list[Layer]:
    """Empty the last `num_kv_shared_layers` layers, which attend to earlier caches.

    Source: Gemma 3n and Gemma 4 model cards; transformers 5.24 modeling_gemma3n.py.
    """
    count = cfg.count("num_kv_shared_layers") or 0
    if not count:
        return layers
    if count >= len(layers):
        raise UnsupportedError(
            f"{count} of {counted(len(layers), 'layer')} cannot all share a cache that none keeps",
            where=cfg.where("num_kv_shared_layers"),
            code="contradiction",
        )
    keep = len(layers) - count
    return layers[:keep] + [kinds.shared()] * count


def read_layers(cfg: Config, family: Family | None) -> tuple[Layer, ...]:
    """Return every layer of the decoder that `cfg` describes."""
    if family is not None and family.whole is not None:
        return family.whole(cfg)
    reader = (family.layer if family else None) or generic_layer
    names = layer_names(cfg, family.names if family else None)
    layers = [reader(cfg.at(i), name) for i, name in enumerate(names)]
    return tuple(_share_last(cfg, layers))
