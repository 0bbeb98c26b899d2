"""Layouts with codebooks, trellises or mixed widths: aqlm, vptq, spqr, exl2, exl3, higgs."""

from __future__ import annotations

from hfkv.core.quantization.parts import Parts, Unpacked

__all__ = ["aqlm", "exl2", "exl3", "higgs", "spqr", "vptq"]

_TILE = 16  # EXL3 tiles and SpQR rows are 16 values


def aqlm(p: Parts) -> Unpacked:
    """AQLM: `codes` [out/og, in/ig, n] with `codebooks` [n, 2^bits, og, ig]."""
    codebooks = p.shape("codebooks")
    if len(p.values.shape) != 3 or len(codebooks) != 4:
        return p.unknown("aqlm")
    out_groups, in_groups, _ = p.values.shape
    return p.found("aqlm", out_groups * codebooks[2], in_groups * codebooks[3])


def vptq(p: Parts) -> Unpacked:
    """VPTQ: padded index tables; the exact shape is only in the block, by module."""
    shape = p.scheme.shapes.get(p.path) if p.scheme else None
    return p.found("vptq", *shape) if shape else p.unknown("vptq")


def spqr(p: Parts) -> Unpacked:
    """SpQR: a 64-bit word holds 16 weights of 3 bits with their scale and zero point.

    Outliers (`col_vals`) correct weights that are already counted.
    Source: spqr_quant 0.2.0, inference.py, QuantizedLinear.
    """
    return p.counted("spqr", _TILE)


def exl3(p: Parts) -> Unpacked:
    """EXL3: `trellis` [in/16, out/16, 16 * bits]."""
    if len(p.values.shape) != 3:
        return p.unknown("exl3")
    in_tiles, out_tiles, _ = p.values.shape
    return p.found("exl3", out_tiles * _TILE, in_tiles * _TILE)


def exl2(p: Parts) -> Unpacked:
    """EXL2: widths change by group of rows, but every input has an entry in the permutation."""
    inputs = p.shape("q_invperm", "q_perm")
    if len(p.values.shape) != 2 or len(inputs) != 1:
        return p.unknown("exl2")
    return p.found("exl2", p.values.shape[1], inputs[0])


def higgs(p: Parts) -> Unpacked:
    """HIGGS: `weight` I16 [out * bits / 16, in] with one row of `scales` per output."""
    scales = p.shape("scales")
    if len(p.values.shape) != 2 or len(scales) != 2:
        return p.unknown("higgs")
    return p.found("higgs", scales[0], p.values.shape[1])
