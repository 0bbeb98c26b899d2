"""What each method's block says beside its name: bit width, group size, per-module widths."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field

from hfkv.core.quantization.blocks import Block
from hfkv.core.quantization.parts import Width
from hfkv.core.record import dataclass

__all__ = ["Details", "read_details"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """Bit width, group size, sub-format, per-module widths and shapes; None: not stated."""

    bits: int | None = None
    group_size: int | None = None
    format: str | None = None
    widths: tuple[Width, ...] = ()
    shapes: dict[str, tuple[int, int]] = field(default_factory=dict)


def read_details(method: str, block: Block) -> Details:
    """Return what a block of this method says; unknown methods by the common keys."""
    return _READERS.get(method, _common)(block)


def _common(block: Block) -> Details:
    return Details(
        bits=block.bits("bits", "w_bit", "num_bits", "nbits"),
        group_size=block.group("group_size", "q_group_size"),
        format=block.text("checkpoint_format", "format", "version", "packing_format", "mode"),
        widths=_overrides(block),
    )


def _overrides(block: Block) -> tuple[Width, ...]:
    """Per-module widths: GPTQ `dynamic`, auto-round `extra_config`, MLX's own path keys."""
    tables = [*block.children("dynamic"), *block.children("extra_config")]
    tables += [
        (key, Block(value, block.file, f"{block.path}.{key}"))
        for key, value in block.values.items()
        if isinstance(value, dict) and "bits" in value
    ]
    return tuple(
        Width(bits=bits, group_size=entry.group("group_size"), pattern=name)
        for name, entry in tables
        if (bits := entry.bits("bits")) is not None
    )


def _fixed(bits: int, group_size: int | None = None) -> Callable[[Block], Details]:
    return lambda _: Details(bits=bits, group_size=group_size)


def _bitsandbytes(block: Block) -> Details:
    if block.flag("load_in_8bit"):
        return Details(bits=8)
    return Details(bits=4, format=block.text("bnb_4bit_quant_type"))


def _compressed_tensors(block: Block) -> Details:
    widths: list[Width] = []
    for _, group in block.children("config_groups"):
        weights = group.child("weights")
        bits = weights.bits("num_bits") if weights else None
        if weights and bits:
            size = weights.group("group_size")
            widths += [
                Width(bits=bits, group_size=size, pattern=target)
                for target in group.names("targets") or ("Linear",)
            ]
    return Details(
        bits=_same(width.bits for width in widths),
        group_size=_same(width.group_size for width in widths),
        format=block.text("format"),
        widths=tuple(widths),
    )


# Bits and group size by `quant_algo`. Source: nvidia-modelopt 0.47.0, QUANTIZATION_* names.
_ALGOS: dict[str, tuple[int, int | None]] = {
    "FP8": (8, None),
    "FP8_PER_CHANNEL_PER_TOKEN": (8, None),
    "FP8_PB_WO": (8, None),
    "INT8": (8, None),
    "MXFP8": (8, 32),
    "NVFP4": (4, 16),
    "NVFP4_AWQ": (4, 16),
    "NVFP4_SVD": (4, 16),
    "W4A16_AWQ": (4, None),
    "W4A16_NVFP4": (4, 16),
    "W4A8_AWQ": (4, None),
    "W4A8_MXFP4_FP8": (4, 32),
    "W4A8_NVFP4_FP8": (4, 16),
    "W8A16": (8, None),
    "W8A8_SQ_PER_CHANNEL": (8, None),
}


def _modelopt(block: Block) -> Details:
    algo = block.text("quant_algo")
    bits, size = _ALGOS.get(algo or "", (None, None))
    if algo is None:
        # config.json may hold only the groups
        groups = _compressed_tensors(block)
        bits, size = groups.bits, groups.group_size
    return Details(bits=bits, group_size=block.group("group_size") or size, format=algo)


def _quark(block: Block) -> Details:
    layer = block.child("global_quant_config")
    weight = layer.values.get("weight") if layer else None
    if layer and isinstance(weight, list):
        # two-level schemes list the storage format first
        weight = weight[0] if weight and isinstance(weight[0], dict) else {}
        inner: Block | None = Block(weight, layer.file, f"{layer.path}.weight[0]")
    else:
        inner = layer.child("weight") if layer else None
    if inner is None:
        return Details()
    dtype = inner.text("dtype")
    return Details(bits=_digits(dtype), group_size=inner.group("group_size"), format=dtype)


def _hqq(block: Block) -> Details:
    config = block.child("quant_config") or block
    weights = config.child("weight_quant_params") or config
    return Details(bits=weights.bits("nbits", "bits"), group_size=weights.group("group_size"))


def _aqlm(block: Block) -> Details:
    code = block.count("nbits_per_codebook") or 0
    books = block.count("num_codebooks") or 0
    vector = (block.count("in_group_size") or 1) * (block.count("out_group_size") or 1)
    bits, rest = divmod(code * books, vector)
    return Details(bits=None if rest or not bits else bits, group_size=block.group("in_group_size"))


def _vptq(block: Block) -> Details:
    shapes: dict[str, tuple[int, int]] = {}
    for name, layer in block.children("config_for_layers"):
        out, inputs = layer.count("out_features"), layer.count("in_features")
        if out and inputs:
            shapes[name] = (out, inputs)
    return Details(shapes=shapes)


def _quanto(block: Block) -> Details:
    weights = block.text("weights")
    return Details(bits=_digits(weights), format=weights)


def _torchao(block: Block) -> Details:
    value = block.values.get("quant_type")
    while isinstance(value, dict):
        # {"default": {"_type": "Int4WeightOnlyConfig", "_data": {…}}}
        value = value.get("_type", value.get("default"))
    name = value if isinstance(value, str) else None
    return Details(bits=_digits(name), format=name)


def _fp_quant(block: Block) -> Details:
    dtype = block.text("forward_dtype")
    return Details(bits=4, group_size=block.group("hadamard_group_size"), format=dtype)


def _gemma(block: Block) -> Details:
    overrides = tuple(
        Width(bits=bits, pattern=name)
        for name, entry in block.children("module_quant_configs")
        if (bits := entry.bits("num_bits")) is not None
    )
    return Details(bits=block.bits("num_bits"), widths=overrides)


_NUMBER = re.compile(r"(?<![a-z])(?:u?int|float|fp|mxfp|qint|qfloat)x?(\d{1,2})")


def _digits(name: str | None) -> int | None:
    """Return the first number in a dtype or class name (`int4_weight_only` → 4)."""
    found = _NUMBER.search((name or "").lower())
    bits = int(found[1]) if found else 0
    return bits if 1 <= bits <= 32 else None


def _same(values: object) -> int | None:
    found = set(values)  # type: ignore[call-overload]
    return found.pop() if len(found) == 1 else None


_READERS: dict[str, Callable[[Block], Details]] = {
    "aqlm": _aqlm,
    "bitnet": _fixed(2),
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": _compressed_tensors,
    "eetq": _fixed(8),
    "fbgemm_fp8": _fixed(8),
    "fp8": _fixed(8),
    "fp_quant": _fp_quant,
    "gemma": _gemma,
    "hqq": _hqq,
    "modelopt": _modelopt,
    "mxfp4": _fixed(4, 32),
    "mxfp8": _fixed(8, 32),
    "nvfp4": _fixed(4, 16),
    "quanto": _quanto,
    "quark": _quark,
    "sinq": _hqq,
    "torchao": _torchao,
    "vptq": _vptq,
}
