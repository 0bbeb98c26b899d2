"""The cache format a checkpoint declares. Scale tensors alone declare nothing."""

from __future__ import annotations

from hfkv.core.counts import kind_of
from hfkv.core.quantization.blocks import Block
from hfkv.errors import MalformedError

__all__ = ["declared_kv"]

# Source: nvidia-modelopt 0.47.0 KV_CACHE_* names; amd-quark 0.13 dtype names; the words that
# vLLM 0.32.0 accepts in `kv_cache_scheme`.
_NAMES: dict[str, str] = {
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8_e5m2",
    "float8_e4m3fn": "fp8",
    "int8": "int8",
    "nvfp4": "nvfp4",
    "nvfp4_affine": "nvfp4",
}
_OFF = frozenset({"none", "null", "auto", ""})

# (num_bits, type) of compressed-tensors quantization arguments.
_SCHEMES: dict[tuple[int, str], str] = {
    (8, "float"): "fp8",
    (8, "int"): "int8",
    (4, "float"): "nvfp4",
}

Declared = tuple[str | None, str | None, tuple[str, ...]]


def declared_kv(blocks: tuple[Block, ...]) -> Declared:
    """Return the declared cache format, where it is declared, and sentences of doubt.

    The first block that declares one wins; a later one that differs is a doubt.
    """
    found: list[tuple[str, str]] = []
    doubts: list[str] = []
    for block in blocks:
        for source, value in _statements(block):
            name = _format(block, source, value)
            if name is None:
                doubts.append(f"{source} is {kind_of(value)}, which is no cache format hfkv knows")
            elif name:
                found.append((name, source))
    if not found:
        return None, None, tuple(doubts)
    first, source = found[0]
    doubts += [
        f"{source} declares a {first} cache, {other_source} {other}"
        for other, other_source in found[1:]
        if other != first
    ]
    return first, source, tuple(doubts)


def _statements(block: Block) -> list[tuple[str, object]]:
    """Return what a block says about the cache, as (place, value)."""
    said: list[tuple[str, object]] = [
        (block.place(key), block.values[key])
        for key in ("kv_cache_scheme", "kv_cache_quant_algo")
        if block.values.get(key) is not None
    ]
    for pattern, layer in block.children("layer_quant_config"):
        output = layer.values.get("output_tensors")
        if pattern.endswith(("k_proj", "v_proj", "kv_proj")) and isinstance(output, dict):
            said.append((layer.place("output_tensors.dtype"), output.get("dtype")))
    return [(place, value) for place, value in said if value is not None]


def _format(block: Block, source: str, value: object) -> str | None:
    """Return a format name, "" for a stated absence, or None for an unknown one."""
    if isinstance(value, str):
        lowered = value.strip().lower()
        return "" if lowered in _OFF else _NAMES.get(lowered)
    if not isinstance(value, dict):
        raise MalformedError(f"expected an object or a name, got {kind_of(value)}", where=source)
    scheme = block.child("kv_cache_scheme")
    bits = scheme.bits("num_bits") if scheme else None
    kind = scheme.text("type") if scheme else None
    return _SCHEMES.get((bits or 0, kind or "float"))
