"""Layouts of small floats: fp8, nvfp4, mxfp4/6/8, bitsandbytes nf4/fp4."""

from __future__ import annotations

from hfkv.core.dtypes import SAFETENSORS_BITS
from hfkv.core.quantization.parts import Parts, Unpacked

__all__ = [
    "FP8",
    "MX_SCALES",
    "bitsandbytes_4bit",
    "block_scaled",
    "deepseek_fp4",
    "fp8",
    "gpt_oss",
    "nvfp4",
]

FP8 = ("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ")
# A power-of-two scale is one exponent byte; writers without F8_E8M0 store it as U8.
MX_SCALES = ("U8", "F8_E8M0")
_MX_BLOCK = 32  # values that share a scale. Source: OCP Microscaling Formats 1.0, section 5.2
_NV_BLOCK = 16  # Source: nvidia-modelopt 0.47.0, NVFP4_BLOCK_SIZES


def fp8(p: Parts) -> Unpacked:
    """One value a byte; block scales of 32 with exponent-only type make it mxfp8."""
    shape = p.values.shape
    scale = p.shape("weight_scale", "scale", "weight_scale_inv", "scale_inv")
    exponent = p.dtype("weight_scale") in MX_SCALES or p.dtype("scale") in MX_SCALES
    mx = exponent and bool(shape and scale) and scale[-1] * _MX_BLOCK == shape[-1]
    return p.found("mxfp8" if mx else "fp8", *shape)


def nvfp4(p: Parts) -> Unpacked:
    """Two e2m1 values a byte along the last dimension."""
    *rows, last = p.values.shape
    return p.found("nvfp4", *rows, 2 * last)


def block_scaled(p: Parts) -> Unpacked:
    """Bytes of 4- or 6-bit floats: the number of scales tells how many values they hold."""
    *rows, last = p.values.shape
    block = _MX_BLOCK if p.dtype("weight_scale") in MX_SCALES else _NV_BLOCK
    width = p.shape("weight_scale")[-1] * block
    if block == _NV_BLOCK:
        return nvfp4(p) if width == 2 * last else p.unknown("nvfp4")
    if width == 2 * last:
        return p.found("mxfp4", *rows, width)
    if 3 * width == 4 * last:
        return p.found("mxfp6", *rows, width)
    return p.unknown("mxfp4")


def gpt_oss(p: Parts) -> Unpacked:
    """gpt-oss experts: `X_blocks` [experts, out, in/32, 16] holds two values a byte."""
    *rows, blocks, width = p.values.shape
    return p.found("mxfp4", *rows, blocks * width * 2)


def deepseek_fp4(p: Parts) -> Unpacked:
    """DeepSeek-V4 experts: int8 tensors that hold two e2m1 values a byte.

    Counting them as int8 would halve the model; the scales, one for 32 values, show it.
    """
    *rows, last = p.values.shape
    width = p.shape("scale")[-1] * _MX_BLOCK
    if width == 2 * last:
        return p.found("deepseek-fp4", *rows, width)
    return p.found("int8", *rows, last) if width == last else p.unknown("deepseek-fp4")


def bitsandbytes_4bit(p: Parts) -> Unpacked:
    """Four-bit values packed flat, [n/2, 1] in bytes or fewer elements of a wider dtype."""
    layout = "fp4" if "weight.quant_state.bitsandbytes__fp4" in p.beside else "nf4"
    return p.counted(layout, SAFETENSORS_BITS.get(p.values.dtype, 8), 4)
