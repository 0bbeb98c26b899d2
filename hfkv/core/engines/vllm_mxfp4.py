"""How vLLM's kernels lay out mxfp4 experts (gpt-oss): what they pad, and what they keep twice.

Which kernel is taken depends on the GPU: Marlin before Hopper and on consumer Blackwell,
Triton on Hopper, FlashInfer's TRT-LLM on datacenter Blackwell, Triton or AITER on AMD.
Source: vLLM 0.19 to 0.32, model_executor/layers/fused_moe/oracle/mxfp4.py
(`mxfp4_round_up_hidden_size_and_intermediate_size`, the order of backends, and what
`convert_to_mxfp4_moe_kernel_format` deletes and which biases it makes float32);
triton_kernels, tensor_details/layout_details/hopper_value.py (64 rows and 64 bytes) and
hopper_scale.py (256 rows, two groups of 32).
"""

from __future__ import annotations

from hfkv.core.engines.mxfp4 import Mxfp4Kernel
from hfkv.core.engines.vllm_options import parse_version
from hfkv.core.gpus import BLACKWELL, HOPPER, row_of
from hfkv.core.workload import GpuChoice

__all__ = ["mxfp4_kernel"]

# The first releases whose wheels bring triton_kernels, that delete the scales they laid out
# anew, that round a TRT-LLM rank to 128, and that may take CUTLASS on consumer Blackwell.
_TRITON, _SCALES_ONCE, _NARROWER, _CUTLASS = (0, 11), (0, 26), (0, 28), (0, 26)


def mxfp4_kernel(gpu: GpuChoice, version: str | None) -> Mxfp4Kernel:
    """Return how one kind of GPU has the experts; a card that is not in the table is a guess."""
    release = parse_version(version)
    row = row_of(gpu.slug)
    if row is not None and row.vendor == "amd":
        return Mxfp4Kernel(
            name="AMD's kernels", hidden=256, inner=256, wide_bias=True, certain=False
        )
    capability = row.capability if row is not None else None
    if capability == HOPPER and release >= _TRITON:
        return Mxfp4Kernel(
            name="Triton",
            inner=64,
            values=(64, 128),
            scales=(256, 64),
            keeps_scales=release < _SCALES_ONCE,
            wide_bias=True,
        )
    if capability == BLACKWELL:
        inner = 128 if release >= _NARROWER else 256
        return Mxfp4Kernel(name="TRT-LLM", hidden=256, inner=inner, wide_bias=True, certain=False)
    certain = capability is not None and (capability <= HOPPER or release < _CUTLASS)
    return Mxfp4Kernel(name="Marlin", hidden=256, inner=128, certain=certain)
