"""One store of one layer against the tensors of that layer."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from hfkv.core.architecture import Architecture
from hfkv.core.counts import counted
from hfkv.core.evidence.observe import Parts, Seen, Stack
from hfkv.core.record import dataclass
from hfkv.core.stores import Fixed, Grows, Layer, LayerKind, Role, Store

__all__ = ["Verdict", "check_layer", "origin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One figure of one layer: confirmed by a tensor, contradicted by it, or neither.

    `claim` is the sentence's part about the config, `fact` the part about the tensor.
    """

    field: str
    value: object
    tensor: Seen | None
    claim: str = ""
    fact: str = ""

    @property
    def disagrees(self) -> bool:
        """Return whether the tensor contradicts the config."""
        return bool(self.fact)


def check_layer(arch: Architecture, layer: Layer, parts: Parts, stack: Stack) -> Iterator[Verdict]:
    """Compare every store of one layer, then look for tensors that no store explains."""
    verdicts = [
        verdict for store in layer.stores for verdict in _store(arch, layer, store, parts, stack)
    ]
    yield from verdicts
    if not any(verdict.disagrees for verdict in verdicts):
        yield from _unexplained(layer, parts, stack)


def _store(
    arch: Architecture, layer: Layer, store: Store, parts: Parts, stack: Stack
) -> Iterator[Verdict]:
    if isinstance(store, Fixed):
        if store.role is not Role.CONV or store.columns is not None:
            yield from _fixed(layer, store, parts, stack)  # the others are no causal conv1d
    elif store.role is Role.KV:
        yield from _key_value(arch, layer, store, parts, stack)
    elif store.role is Role.LATENT:
        yield _latent(arch, store, parts)
    elif store.role is Role.INDEX:
        yield _width("index_head_dim", store.key, parts.get("index"))
    else:
        yield from _cross(arch, layer, store, parts)


def _width(field: str, value: int, seen: Seen | None, claim: str = "") -> Verdict:
    """Compare one width with the rows of a tensor."""
    if seen is None or seen.rows == value:
        return Verdict(field=field, value=value, tensor=seen)
    return Verdict(
        field=field,
        value=value,
        tensor=seen,
        claim=claim or f"{field} {value}",
        fact=f"`{seen.tensor}` has {seen.rows} rows",
    )


def _claim(arch: Architecture, store: Grows, width: int) -> str:
    heads = store.heads or 1
    key = origin(arch, "num_key_value_heads")
    return f"{counted(heads, 'KV head')} × {width} = {heads * width} ({key})"


def origin(arch: Architecture, field: str) -> str:
    """Return where a figure came from, as a message names it."""
    found = next((r.source for r in arch.readings if r.field == field), None)
    return found or f"config.json: {field}"


def _key_value(
    arch: Architecture, layer: Layer, store: Grows, parts: Parts, stack: Stack
) -> Iterator[Verdict]:
    heads = store.heads or 1
    if "key" in parts:
        key = _width("key width", heads * store.key, parts["key"], _claim(arch, store, store.key))
        yield key
        # where there is no v_proj, the values are the keys (Gemma 4's wide layers)
        seen = parts.get("value", parts["key"])
        claim = _claim(arch, store, store.value)
        value = _width("value width", heads * store.value, seen, claim)
        if not key.disagrees or seen.rows != parts["key"].rows:
            yield value
    elif "fused" in parts:
        queries = (layer.heads or heads) * store.key
        total = queries + heads * (store.key + store.value)
        claim = f"{queries} query rows and {_claim(arch, store, store.key)}"
        yield _width("query, key and value width", total, parts["fused"], claim)
    elif _has_none(layer, parts, stack):
        yield Verdict(
            field="key width",
            value=heads * store.key,
            tensor=None,
            claim=f"{layer.kind} with its own keys",
            fact=f"the layer has {_what(parts)}",
        )
    else:
        yield Verdict(field="key width", value=heads * store.key, tensor=None)


def _has_none(layer: Layer, parts: Parts, stack: Stack) -> bool:
    """Return whether a layer lacks what it should have although names are understood.

    Hybrid layers may share one stored attention block (Zamba), so they prove nothing.
    """
    if layer.kind is LayerKind.HYBRID:
        return False
    other = ("decay", "conv", "latent", "cross_key")
    return stack.has("key", "fused") or any(part in parts for part in other)


def _what(parts: Parts) -> str:
    """Return which mixer's tensors a layer has instead."""
    for part in ("decay", "conv", "latent", "cross_key", "key", "fused", "query", "mixer"):
        if part in parts:
            return f"`{parts[part].tensor}`" + (" and no keys" if part == "query" else "")
    return "no token mixer"


def _latent(arch: Architecture, store: Grows, parts: Parts) -> Verdict:
    """Compare the compressed vector: rank and rotary part come out of one projection."""
    seen = parts.get("latent")
    if seen is None and "fused_latent" in parts and "query_latent" in parts:
        joint = parts["fused_latent"]
        rows = joint.rows - parts["query_latent"].rows
        seen = Seen(tensor=joint.tensor, shape=(rows, joint.columns))
    if seen is None and "key" in parts:
        return Verdict(
            field="kv_lora_rank + qk_rope_head_dim",
            value=store.key,
            tensor=None,
            claim="latent attention",
            fact=f"the layer has `{parts['key'].tensor}`",
        )
    claim = f"latent and rotary width {store.key} ({origin(arch, 'kv_lora_rank')})"
    return _width("kv_lora_rank + qk_rope_head_dim", store.key, seen, claim)


def _cross(arch: Architecture, layer: Layer, store: Grows, parts: Parts) -> Iterator[Verdict]:
    heads = store.heads or 1
    seen = parts.get("cross_key")
    if seen is None and layer.kind is LayerKind.CROSS and ("key" in parts or "fused" in parts):
        yield Verdict(
            field="cross-attention width",
            value=heads * store.key,
            tensor=None,
            claim="cross_attention",
            fact=f"the layer has {_what(parts)}",
        )
        return
    yield _width("cross-attention width", heads * store.key, seen, _claim(arch, store, store.key))


def _fixed(layer: Layer, store: Fixed, parts: Parts, stack: Stack) -> Iterator[Verdict]:
    """Compare convolution and recurrent state with the tensors that fix their sizes."""
    field = "convolution state" if store.role is Role.CONV else "recurrent state"
    wanted = "conv" if store.role is Role.CONV else "decay"
    seen = parts.get(wanted) or (_three(parts) if wanted == "conv" else None)
    if seen is None:
        if stack.has(wanted) and any(p in parts for p in ("key", "fused", "cross_key", "latent")):
            yield Verdict(
                field=field,
                value=store.elements,
                tensor=None,
                claim=layer.kind,
                fact=f"the layer has {_what(parts)}",
            )
        else:
            yield Verdict(field=field, value=store.elements, tensor=None)
        return
    expected = _conv_size(seen) if wanted == "conv" else _state_size(store, seen)
    if expected in (None, store.elements):
        yield Verdict(field=field, value=store.elements, tensor=seen)
    else:
        yield Verdict(
            field=field,
            value=store.elements,
            tensor=seen,
            claim=f"a {field} of {store.elements} elements",
            fact=f"`{seen.tensor}` {_dims(seen)} makes it {expected}",
        )


def _three(parts: Parts) -> Seen | None:
    """Return KDA's three convolutions (queries, keys, values) as if they were one."""
    found = [parts[part] for part in ("conv_q", "conv_k", "conv_v") if part in parts]
    if len(found) < 3:
        return None
    channels = sum(seen.rows for seen in found)
    return Seen(tensor=found[0].tensor, shape=(channels, 1, found[0].shape[-1]))


def _conv_size(seen: Seen) -> int:
    """Return channels x (kernel - 1) of a depthwise convolution [channels, 1, kernel]."""
    return seen.shape[0] * (seen.shape[-1] - 1)


def _state_size(store: Fixed, seen: Seen) -> int | None:
    """Return what the decay tensor fixes of the recurrent state.

    Mamba 1 keeps A_log [inner, state] whole. Mamba 2 and gated delta keep one decay per
    head, which fixes the heads; the rest is fixed by the convolution's channels.
    """
    if len(seen.shape) == 2:
        return seen.shape[0] * seen.shape[1]
    if store.heads and prod(seen.shape) != store.heads:
        return store.elements // store.heads * prod(seen.shape)
    return None


def _dims(seen: Seen) -> str:
    return "[" + ", ".join(map(str, seen.shape)) + "]"


def _unexplained(layer: Layer, parts: Parts, stack: Stack) -> Iterator[Verdict]:
    """Look for tensors that keep something in a layer that is said to keep nothing."""
    roles = {store.role for store in layer.stores}
    own_keys = next((parts[p] for p in ("key", "fused") if p in parts), None)
    if own_keys and layer.kind in (LayerKind.NONE, LayerKind.SHARED) and not roles:
        if layer.kind is LayerKind.NONE or not stack.keys_everywhere:
            yield _extra(layer, own_keys)
        else:
            # Gemma-3n stores keys that its sharing layers never use
            yield Verdict(field="sharing of one layer's cache by others", value="", tensor=None)
    if "decay" in parts and not roles & {Role.STATE, Role.CONV}:
        yield _extra(layer, parts["decay"])
    elif "conv" in parts and Role.CONV not in roles:
        yield _extra(layer, parts["conv"])
    if "latent" in parts and not roles & {Role.LATENT, Role.KV}:
        yield _extra(layer, parts["latent"])


def _extra(layer: Layer, seen: Seen) -> Verdict:
    return Verdict(
        field="layer_types",
        value=str(layer.kind),
        tensor=seen,
        claim=layer.kind,
        fact=f"`{seen.tensor}` is there",
    )
