"""How many tokens a vLLM block holds, and what its pages are padded to.

Source: vLLM 0.32 platforms/interface.py (update_block_size_for_backend,
_align_hybrid_block_size) and the kernel block sizes of v1/attention/backends.
"""

from __future__ import annotations

import math

from hfkv.core.architecture import Architecture
from hfkv.core.counts import counted
from hfkv.core.engines.engine import Formats, text_type
from hfkv.core.engines.vllm_options import VllmOptions
from hfkv.core.engines.vllm_specs import FULL_KINDS, Kind, Spec
from hfkv.core.gpus import BLACKWELL, HOPPER
from hfkv.core.record import replace
from hfkv.errors import UsageError

__all__ = ["sized", "token_block"]

_DEFAULT = 16
_FP8 = ("fp8", "fp8_e4m3")
# Pages of DeepSeek-V4 hold 256 tokens, its window's 64; compressor buffers are cut so that
# a page is about as large. Source: models/deepseek_v4/compressor.py, mla/sparse_swa.py.
_V4_BLOCK, _V4_WINDOW_BLOCK, _V4_ALIGNMENT = 256, 64, 576
_V4_BUFFER_BLOCKS = {8: 4, 128: 8}
_V4_ROW = 584
# Block-sparse attention works on blocks of 128. Source: models/minimax_m3.
_SPARSE_BLOCK = {"minimax_m3": 128}


def sized(
    arch: Architecture, specs: tuple[Spec, ...], formats: Formats, options: VllmOptions
) -> tuple[Spec, ...]:
    """Return the specs with their block sizes and, for hybrid models, padded state pages."""
    if text_type(arch) == "deepseek_v4":
        return tuple(_v4(spec) for spec in specs)
    block = token_block(arch, specs, formats, options)
    states = [spec for spec in specs if spec.kind is Kind.STATE]
    token = _token_bytes(specs)
    if not states or not token:
        return tuple(replace(spec, block_size=block) for spec in specs)
    block = _hybrid_block(specs, block, token, _kernel_blocks(arch, specs, formats, options))
    page = block * token
    return tuple(
        replace(spec, block_size=block, padded=page if spec.kind is Kind.STATE else 0)
        for spec in specs
    )


def token_block(
    arch: Architecture, specs: tuple[Spec, ...], formats: Formats, options: VllmOptions
) -> int:
    """Return the block size that is stated, else the smallest every backend accepts.

    Raises UsageError for a size that makes no sense.
    """
    stated = options.block_size
    if stated is not None:
        if stated < 1 or stated % _DEFAULT:
            raise UsageError(
                f"vLLM has no blocks of {counted(stated, 'token')}",
                hint="its attention kernels take multiples of 16",
                code="block-size",
            )
        return stated
    kernels = _kernel_blocks(arch, specs, formats, options)
    return _DEFAULT if all(_DEFAULT % size == 0 for size in kernels) else math.lcm(*kernels)


def _kernel_blocks(
    arch: Architecture, specs: tuple[Spec, ...], formats: Formats, options: VllmOptions
) -> tuple[int, ...]:
    """Return the smallest block of each attention backend that the model's layers use."""
    kinds = {spec.kind for spec in specs}
    fp8, capability = formats.cache.name in _FP8, options.compute_capability
    sizes = {_DEFAULT}
    if Kind.INDEX in kinds and Kind.LATENT in kinds:
        sizes = {64}
    elif Kind.LATENT in kinds:
        sizes = {_latent_kernel(capability, fp8=fp8)}
    sizes |= {size for name, size in _SPARSE_BLOCK.items() if text_type(arch).startswith(name)}
    # FlashAttention 4 reads fp8 rows of 512 in tiles of 64 tokens
    wide = any(store.key == 512 for layer in arch.layers if (store := layer.attention))
    if fp8 and capability == HOPPER and wide and Kind.LATENT not in kinds:
        sizes |= {64}
    return tuple(sorted(sizes))


def _latent_kernel(capability: int, *, fp8: bool) -> int:
    """Return the block of the dense latent backend: FLASHMLA, FLASHINFER_MLA or another."""
    if capability == BLACKWELL:
        return 32
    return 64 if fp8 and capability == HOPPER else _DEFAULT


def _token_bytes(specs: tuple[Spec, ...]) -> int:
    """Return what the first attention layer keeps per token."""
    return next((s.entry_bytes // s.stride for s in specs if s.kind in FULL_KINDS), 0)


def _hybrid_block(specs: tuple[Spec, ...], block: int, token: int, kernels: tuple[int, ...]) -> int:
    """Return the block whose attention page is at least as large as a state."""
    state = max(spec.entry_bytes for spec in specs if spec.kind is Kind.STATE)
    align = max(min(kernels), block)
    if any(spec.kind is Kind.LATENT for spec in specs):
        align = max(align, 128)
    common = math.lcm(*kernels)
    found = align * -(-state // (align * token))
    return max(block, -(-found // common) * common)


def _v4(spec: Spec) -> Spec:
    if spec.kind is Kind.SLIDING:
        buffer = _V4_BUFFER_BLOCKS.get(spec.window or 0, _V4_WINDOW_BLOCK)
        block = _V4_WINDOW_BLOCK if spec.entry_bytes == _V4_ROW else buffer
    else:
        block = _V4_BLOCK
    return replace(spec, block_size=block, alignment=_V4_ALIGNMENT)
