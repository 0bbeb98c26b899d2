"""One layer's cache as vLLM describes it: pages of a block of tokens, or of a state.

Source: vLLM 0.32 v1/kv_cache_interface.py.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from hfkv.core.architecture import Architecture
from hfkv.core.counts import counted
from hfkv.core.engines.engine import Formats, text_type
from hfkv.core.engines.vllm_options import VllmOptions
from hfkv.core.engines.vllm_stores import adapt, pack
from hfkv.core.record import dataclass, replace
from hfkv.core.stores import Fixed, Grows, Layer, LayerKind, Role, Store
from hfkv.errors import UsageError

__all__ = ["Demand", "Kind", "Spec", "raw_specs", "served_layers"]

# A model has one drafter layer of this kind, whatever its main layers are.
# Source: vLLM 0.32 models/mimo_v2_mtp.py, models/deepseek_v4/nvidia/mtp.py.
_DRAFTS_WINDOWED = ("mimo_v2", "deepseek_v4")


class Kind(StrEnum):
    """The kinds of spec that ask for different numbers of blocks."""

    FULL = "full"
    LATENT = "latent"
    INDEX = "index"
    SLIDING = "sliding"
    CHUNKED = "chunked"
    CROSS = "cross"
    STATE = "state"


# These hold every token, so they may share one group whatever their widths.
FULL_KINDS = (Kind.FULL, Kind.LATENT, Kind.INDEX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one request may ask for: its length, and tokens computed but not yet settled.

    `encoder_tokens` is what cross-attention reserves; `retained` are tokens kept below a
    window for a chain of drafters.
    """

    max_model_len: int
    in_flight: int
    encoder_tokens: int = 0
    retained: int = 0
    context_parallel: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One cache of one layer on one rank.

    `entry_bytes` is one stored entry, of `stride` tokens, or a whole state. `alignment` and
    `padded` say what a page is rounded up to; `states` how many a request holds. `layer` is
    not part of what makes two specs alike.
    """

    kind: Kind
    layer: int = field(compare=False)
    block_size: int = 0
    entry_bytes: int
    stride: int = 1
    window: int | None = None
    alignment: int = 1
    padded: int = 0
    states: int = 1
    every_block: bool = False

    @property
    def content_bytes(self) -> int:
        """Return the bytes of a page that hold something."""
        if self.kind is Kind.STATE:
            return self.entry_bytes
        return self.entry_bytes * (self.block_size // self.stride)

    @property
    def page_bytes(self) -> int:
        """Return the bytes a page takes from the pool."""
        aligned = -(-self.content_bytes // self.alignment) * self.alignment
        return max(self.padded, aligned)

    def ideal_bytes(self, tokens: int, source_tokens: int) -> int:
        """Return what `tokens` need without blocks, reserves and padding."""
        if self.kind is Kind.STATE:
            return self.entry_bytes
        if self.kind is Kind.CROSS:
            return self.entry_bytes * source_tokens
        kept = tokens if self.window is None else min(tokens, self.window)
        return self.entry_bytes * (kept // self.stride)

    def blocks(self, demand: Demand) -> int:
        """Return the blocks that one request of `max_model_len` may hold at once.

        A window is reserved with the tokens in flight, and one block more because it may
        begin inside a block.
        """
        length, size = demand.max_model_len, self.block_size
        if self.kind is Kind.STATE:
            return _blocks(length, size) + self.states - 1 if self.every_block else self.states
        if self.kind is Kind.CROSS:
            return _blocks(demand.encoder_tokens, size)
        if self.window is None:
            return _blocks(_blocks(length, demand.context_parallel), size)
        if self.kind is Kind.CHUNKED:
            return _blocks(min(self.window + demand.in_flight, length), size)
        reach = self.window - 1 + demand.retained + demand.in_flight
        return _blocks(min(reach, length), size) + 1


def _blocks(tokens: int, size: int) -> int:
    return -(-tokens // size)


def served_layers(arch: Architecture, options: VllmOptions) -> tuple[Layer, ...]:
    """Return the layers that have caches: the model's, then those of its drafter.

    With speculative tokens, the model's own next-token layers are served: each is one more
    layer of ordinary attention.
    """
    if not options.num_speculative_tokens:
        return arch.layers
    windowed = text_type(arch).startswith(_DRAFTS_WINDOWED)
    kinds = (LayerKind.SLIDING,) if windowed else _ATTENTION
    drafter = next((layer for layer in reversed(arch.layers) if layer.kind in kinds), None)
    if drafter is None:
        return arch.layers
    plain = tuple(store for store in drafter.stores if isinstance(store, Grows))
    count = 1 if windowed else max(1, arch.mtp_layers or 0)
    return arch.layers + (replace(drafter, stores=plain),) * count


_ATTENTION = (LayerKind.FULL, LayerKind.LATENT, LayerKind.SPARSE_LATENT, LayerKind.HYBRID)


def raw_specs(arch: Architecture, formats: Formats, options: VllmOptions) -> tuple[Spec, ...]:
    """Return the specs of every layer on one rank, before block sizes are known.

    Raises UsageError where the ranks cannot share the heads.
    """
    alike: dict[tuple[LayerKind, tuple[Store, ...]], list[Spec]] = {}
    found: list[Spec] = []
    for index, layer in enumerate(served_layers(arch, options)):
        kept = adapt(arch, index, layer)
        same = alike.get((layer.kind, kept))
        if same is None:
            alike[layer.kind, kept] = same = _layer_specs(index, layer, kept, formats, options)
            found += same
        else:
            found += [replace(spec, layer=index) for spec in same]
    return tuple(found)


def _layer_specs(
    index: int, layer: Layer, kept: tuple[Store, ...], formats: Formats, options: VllmOptions
) -> list[Spec]:
    stores = pack(layer, kept, formats.cache)
    found = [
        _attention(index, store, formats, options) for store in stores if isinstance(store, Grows)
    ]
    states = tuple(store for store in stores if isinstance(store, Fixed))
    if states:
        found.append(_state(index, layer, states, formats, options))
    return found


def _attention(index: int, store: Grows, formats: Formats, options: VllmOptions) -> Spec:
    heads = 1 if store.heads is None else _heads_on_rank(store.heads, options)
    return Spec(
        kind=_kind(store),
        layer=index,
        entry_bytes=formats.of(store).size(heads * (store.key + store.value)),
        stride=store.stride,
        window=store.window,
    )


def _kind(store: Grows) -> Kind:
    if store.role is Role.CROSS:
        return Kind.CROSS
    if store.window is not None:
        return Kind.CHUNKED if store.chunked else Kind.SLIDING
    return {Role.LATENT: Kind.LATENT, Role.INDEX: Kind.INDEX}.get(store.role, Kind.FULL)


def _heads_on_rank(heads: int, options: VllmOptions) -> int:
    """Return the KV heads of one rank; fewer heads than ranks are copied."""
    ranks = options.tensor_parallel_size
    if heads % ranks and ranks % heads:
        raise UsageError(
            f"vLLM cannot share {counted(heads, 'KV head')} between {ranks} tensor-parallel ranks",
            hint="one number must divide the other",
            code="tp",
        )
    return max(1, heads // ranks)


def _state(
    index: int,
    layer: Layer,
    stores: tuple[Fixed, ...],
    formats: Formats,
    options: VllmOptions,
) -> Spec:
    """Return the one page that holds all states of a layer.

    Drafting adds a convolution column per speculative token (not to Mamba-1).
    """
    extra = 0 if _is_mamba1(stores) else options.num_speculative_tokens
    size = sum(_on_rank(store, extra, formats, options) for store in stores)
    return Spec(
        kind=Kind.STATE,
        layer=index,
        entry_bytes=size,
        states=_states(layer, stores, options),
        every_block=bool(options.enable_prefix_caching) and _state_per_block(layer, options),
    )


def _is_mamba1(stores: tuple[Fixed, ...]) -> bool:
    """Tell Mamba-1, whose state is per channel of its convolution, from per-head states."""
    return len({store.heads for store in stores}) == 1 and len(stores) > 1


def _on_rank(store: Fixed, extra: int, formats: Formats, options: VllmOptions) -> int:
    elements, whole, ranks = store.elements, store.whole, options.tensor_parallel_size
    if store.columns:
        elements += elements // store.columns * extra
        whole += whole // store.columns * extra
    split, rest = divmod(elements - whole, ranks)
    if rest or (store.heads is not None and store.heads % ranks):
        raise UsageError(
            f"vLLM cannot share recurrent states between {ranks} tensor-parallel ranks",
            hint="the number of ranks must divide the model's recurrent heads",
            code="tp",
        )
    return formats.of(store).size(whole + split)


def _states(layer: Layer, stores: tuple[Fixed, ...], options: VllmOptions) -> int:
    """Return how many states a request holds.

    Without prefix caching the current one, plus one per speculative token; with it also
    the one at the last block boundary, and for Mamba-2 the checkpoint of a prefill.
    """
    count = 1 + options.num_speculative_tokens
    if not options.enable_prefix_caching or options.version < (0, 26):
        return count
    if _state_per_block(layer, options):
        return count
    return count + 1 + int(_is_mamba2(layer, stores))


def _is_mamba2(layer: Layer, stores: tuple[Store, ...]) -> bool:
    mamba = layer.kind in (LayerKind.STATE_SPACE, LayerKind.HYBRID)
    return mamba and len({store.heads for store in stores}) > 1


def _state_per_block(layer: Layer, options: VllmOptions) -> bool:
    """Tell whether a state is kept for every block: Mamba with prefix caching, 0.26 to 0.28."""
    mamba = layer.kind in (LayerKind.STATE_SPACE, LayerKind.HYBRID)
    return mamba and (0, 26) <= options.version < (0, 30)
