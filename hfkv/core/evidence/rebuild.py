"""The layer table when no config can be read: ordinary attention and MLA, from tensors alone.

Widths are exact. Windows leave no trace, so every layer is taken to keep all tokens; the
number of heads is known only where a per-head norm shows their size. Recurrent layouts are
refused: their state sizes are not in the shapes alone.
"""

from __future__ import annotations

from dataclasses import replace

from hfkv.core.architecture import Architecture
from hfkv.core.counts import counted
from hfkv.core.evidence.observe import Parts, Seen, Stack, observe
from hfkv.core.files import ModelFiles
from hfkv.core.patterns import MAX_LAYERS
from hfkv.core.readings import Confidence, Reading
from hfkv.core.record import dataclass
from hfkv.core.stores import Grows, Layer, LayerKind, Role

__all__ = ["FromTensors", "architecture_from_tensors", "layers_from_tensors"]

_WINDOWS = "windows leave no trace in tensors: every layer is taken to keep all tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class FromTensors:
    """Layers as the tensors show them, the figures with their tensors, and what is not known."""

    layers: tuple[Layer, ...]
    readings: tuple[Reading, ...]
    notes: tuple[str, ...]
    embedding: Seen | None


def layers_from_tensors(files: ModelFiles) -> FromTensors | None:
    """Return the layer table that the tensors show, or None where they do not tell it all."""
    stack = observe(files)
    if stack is None or not _understood(stack):
        return None
    layers = tuple(_layer(stack.layers[i]) for i in range(stack.depth))
    if not any(layer.stores for layer in layers):
        return None
    return FromTensors(
        layers=layers,
        readings=tuple(_readings(stack)),
        notes=("the layer table is from tensors, not from a config", _WINDOWS),
        embedding=stack.embedding,
    )


def _understood(stack: Stack) -> bool:
    """Return whether every layer is attention with known widths, or has no mixer at all."""
    complete = len(stack.layers) == stack.depth <= MAX_LAYERS
    return complete and all(_plain(parts) for parts in stack.layers.values())


def _plain(parts: Parts) -> bool:
    """Return whether a layer is MLA, ordinary attention (RWKV has keys, no queries) or no mixer."""
    if {"decay", "conv", "cross_key", "index"} & parts.keys():
        return False
    if "latent" in parts:
        return parts["latent"].rows > 0
    if "key" in parts:
        return "query" in parts and parts["key"].rows > 0
    if "fused" in parts:
        return _widths(parts) is not None
    return not {"mixer", "query", "output"} & parts.keys()


def _layer(parts: Parts) -> Layer:
    if "latent" in parts:
        store = Grows(key=parts["latent"].rows, role=Role.LATENT)
        return Layer(kind=LayerKind.LATENT, stores=(store,))
    widths = _widths(parts)
    if widths is None:
        return Layer(kind=LayerKind.NONE)
    key, value = widths
    dim = parts["key_norm"].rows if "key_norm" in parts else 0
    if not dim or key % dim or value % (key // dim):
        dim = key
    heads = key // dim
    # one head of the whole width: the tensors do not say how many share it
    store = Grows(heads=heads if heads > 1 else None, key=dim, value=value // heads)
    return Layer(kind=LayerKind.FULL, stores=(store,))


def _widths(parts: Parts) -> tuple[int, int] | None:
    """Return the key and value width of a layer with attention of its own."""
    if "key" in parts:
        return parts["key"].rows, parts.get("value", parts["key"]).rows
    if "fused" in parts:
        fused, output = parts["fused"], parts.get("output")
        # what attention puts out is as wide as its queries
        queries = output.columns if output else fused.columns
        both, rest = divmod(fused.rows - queries, 2)
        return (both, both) if both > 0 and not rest else None
    return None


def _readings(stack: Stack) -> list[Reading]:
    counts: dict[tuple[str, int, str], int] = {}
    for parts in stack.layers.values():
        for part in ("key", "value", "fused", "latent"):
            if part in parts:
                key = (f"{part} width", parts[part].rows, parts[part].tensor)
                counts[key] = counts.get(key, 0) + 1
    found = [
        Reading(field=field, value=rows, source=f"`{tensor}` in {counted(layers, 'layer')}")
        for (field, rows, tensor), layers in counts.items()
    ]
    depth = Reading(field="num_hidden_layers", value=stack.depth, source=f"`{stack.prefix}.{{}}`")
    return [depth, *found]


def architecture_from_tensors(arch: Architecture, files: ModelFiles) -> Architecture:
    """Return an architecture with its layers taken from the tensors, if they tell them.

    Used only where the config could not be read (confidence unknown); the result is
    `inferred` and its doubts say where the table comes from.
    """
    found = layers_from_tensors(files)
    if arch.confidence is not Confidence.UNKNOWN or found is None:
        return arch
    stores = [layer.attention for layer in found.layers if layer.attention]
    latent = stores[0].role is Role.LATENT
    table = found.embedding
    return replace(
        arch,
        kind="decoder",
        layers=found.layers,
        num_hidden_layers=len(found.layers),
        hidden_size=arch.hidden_size or (table.columns if table else None),
        vocab_size=arch.vocab_size or (table.rows if table else None),
        attention="MLA" if latent else "mixed",
        confidence=Confidence.INFERRED,
        doubts=(*arch.doubts, *found.notes),
        source_tokens=0,
        readings=(*arch.readings, *found.readings),
        from_tensors=True,
    )
