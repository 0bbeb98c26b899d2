"""Layouts of packed integers: gptq, awq, compressed-tensors, MLX, HQQ, int8 and relatives."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hfkv.core.quantization.parts import Parts, Unpacked, Width

__all__ = [
    "awq_fast",
    "bitnet",
    "eetq",
    "fp_quant",
    "gemma",
    "hqq",
    "int8",
    "marlin_24",
    "mlx",
    "modelopt_awq",
    "pack_quantized",
    "quanto",
    "quanto_packed",
    "quark_int4",
    "qweight",
    "sparse_24",
    "torchao",
]

_WORD = 32


def widths(p: Parts) -> Iterator[Width]:
    """Yield the bit widths the block states for a module, the most specific first."""
    scheme = p.scheme
    if scheme is None:
        return
    yield from (w for w in scheme.widths if w.pattern and _matches(w.pattern, p.path))
    if scheme.bits is not None:
        yield Width(bits=scheme.bits, group_size=scheme.group_size)
    yield from scheme.widths


def _matches(pattern: str, path: str) -> bool:
    if pattern == path:
        return True
    try:
        return re.search(pattern.removeprefix("re:").removeprefix("+:"), path) is not None
    except re.error:
        return False


def qweight(p: Parts) -> Unpacked:
    """I32 `qweight`: GPTQ packs rows (dim 0), AWQ packs columns (dim 1 of [in, out]).

    `scales` always has one column per output, so it tells the two apart, and with `g_idx`
    or `qzeros` the bit width too.
    """
    if len(p.values.shape) != 2 or len(p.shape("scales")) != 2:
        return p.unknown("gptq")
    rows, columns = p.values.shape
    groups, outputs = p.shape("scales")
    if outputs == columns:
        return _gptq(p, rows, outputs)
    if rows == groups and rows != outputs:
        # gemv: [out, in/8] with scales [out, in/group]
        return _by_bits(p, "awq", rows, columns, along=1)
    ratio, rest = divmod(columns, outputs)
    if not rest and ratio in (2, 4):
        # marlin tiles: [in/16, 16 * out * bits / 32]
        return p.found("awq", outputs, rows * 16)
    bits, rest = divmod(_WORD * columns, outputs)
    return p.found("awq", outputs, rows) if bits and not rest else p.unknown("awq")


def _gptq(p: Parts, rows: int, outputs: int) -> Unpacked:
    if "g_idx" in p.beside:
        return p.found("gptq", outputs, p.shape("g_idx")[0])
    zeros = p.shape("qzeros")
    if len(zeros) == 2:
        bits, rest = divmod(_WORD * zeros[1], outputs)
        inputs, left = divmod(rows * _WORD, bits or 1)
        if bits and not rest and not left:
            return p.found("gptq", outputs, inputs)
    return _by_bits(p, "gptq", rows, outputs, along=0)


def _by_bits(p: Parts, layout: str, rows: int, columns: int, *, along: int) -> Unpacked:
    for width in widths(p):
        packed, other = (rows, columns) if along == 0 else (columns, rows)
        inputs, rest = divmod(packed * _WORD, width.bits)
        if not rest:
            return p.found(layout, other, inputs)
    return p.unknown(layout)


def awq_fast(p: Parts) -> Unpacked:
    """AWQ gemv_fast: four 4-bit values in each 16-bit word."""
    return p.counted("awq", 4)


def pack_quantized(p: Parts) -> Unpacked:
    """compressed-tensors: [out, words], dense or (older writers) whole values per word.

    The true shape is data (`weight_shape`), so the width the block states is checked
    against the number of scales; the first that fits decides.
    """
    *rows, words = p.values.shape
    groups = (p.shape("weight_scale") or (1,))[-1]
    for width in widths(p):
        dense, rest = divmod(words * _WORD, width.bits)
        if width.group_size is None:
            # one scale a row says nothing about the row's length, so the words must be full
            if groups == 1 and not rest:
                return p.found("pack-quantized", *rows, dense)
            continue
        inputs = groups * width.group_size
        per_word = _WORD // width.bits
        if words in (-(-inputs * width.bits // _WORD), -(-inputs // per_word)):
            return p.found("pack-quantized", *rows, inputs)
    return p.unknown("pack-quantized")


def marlin_24(p: Parts) -> Unpacked:
    """compressed-tensors marlin-24: half of the values stored, a metadata word for 16 of all."""
    meta = p.beside.get("meta")
    parameters = meta.elements * 16 if meta else None
    return Unpacked(layout="marlin-24", parameters=parameters)


def sparse_24(p: Parts) -> Unpacked:
    """compressed-tensors sparse-24-bitmask: one mask bit per logical value."""
    *rows, packed = p.shape("bitmask")
    return p.found("sparse-24", *rows, packed * 8)


def quark_int4(p: Parts) -> Unpacked:
    """Quark int4: eight values a word, along whichever dimension the exporter chose."""
    return p.counted("quark-int4", 8)


def mlx(p: Parts) -> Unpacked:
    """MLX and Metal: U32 words [out, in * bits / 32]; the number of scales tells the bits."""
    layout = "metal" if "qbiases" in p.beside else "mlx"
    *rows, words = p.values.shape
    groups = p.shape("scales")[-1]
    for width in widths(p):
        inputs = groups * (width.group_size or 64)
        bits, rest = divmod(words * _WORD, inputs or 1)
        if not rest and 1 <= bits <= 8:
            return p.found(layout, *rows, inputs)
    return p.unknown(layout)


def hqq(p: Parts) -> Unpacked:
    """HQQ: flat groups; one scale per group counts the values whatever the packing pads."""
    size = next((w.group_size for w in widths(p) if w.group_size), None)
    scales = p.beside.get("scale")
    if size is None or scales is None:
        return p.unknown("hqq")
    return Unpacked(layout="hqq", parameters=scales.elements * size)


def int8(p: Parts) -> Unpacked:
    """One int8 a value (compressed-tensors, ModelOpt, quark, bitsandbytes with SCB)."""
    return p.found("llm-int8" if "SCB" in p.beside else "int8", *p.values.shape)


def eetq(p: Parts) -> Unpacked:
    """EETQ: int8 stored transposed, [in, out]."""
    return p.found("eetq", *reversed(p.values.shape))


def modelopt_awq(p: Parts) -> Unpacked:
    """ModelOpt W4A16/W4A8 AWQ: two 4-bit values a byte along the output dimension."""
    *rows, out, inputs = p.values.shape
    return p.found("modelopt-awq", *rows, 2 * out, inputs)


def bitnet(p: Parts) -> Unpacked:
    """BitNet: four ternary values a byte along the output dimension."""
    out, *rest = p.values.shape
    return p.found("bitnet", 4 * out, *rest)


def gemma(p: Parts) -> Unpacked:
    """Gemma QAT: 8/bits values a byte along the input dimension; int8 holds one."""
    *rows, last = p.values.shape
    if p.values.dtype == "I8":
        return p.found("gemma", *rows, last)
    for width in widths(p):
        if width.bits in (2, 4):
            return p.found("gemma", *rows, last * 8 // width.bits)
    return p.unknown("gemma")


def fp_quant(p: Parts) -> Unpacked:
    """FP-Quant: two 4-bit floats a byte along the input dimension."""
    *rows, last = p.values.shape
    return p.found("fp_quant", *rows, 2 * last)


def torchao(p: Parts) -> Unpacked:
    """Torchao: one value an element; int4, which the block tells, two a byte or eight a word."""
    *rows, last = p.values.shape
    bits = next((w.bits for w in widths(p)), None)
    if bits == 4 and p.values.dtype in {"I8", "U8", "I32"}:
        return p.found("torchao", *rows, last * (8 if p.values.dtype == "I32" else 2))
    by_row = p.shape("_weight_scale")[:1] == p.values.shape[:1]
    if bits is None and not by_row and p.values.dtype[:1] in {"I", "U"}:
        return p.unknown("torchao")
    return p.found("torchao", *p.values.shape)


def quanto(p: Parts) -> Unpacked:
    """Quanto int8 and float8: one value a byte."""
    return p.found("quanto", *p.values.shape)


def quanto_packed(p: Parts) -> Unpacked:
    """Quanto int4 and int2: 8/bits values a byte along the first dimension."""
    for width in widths(p):
        if width.bits in (2, 4):
            return p.counted("quanto", 8, width.bits)
    return p.unknown("quanto")
