"""What TensorRT-LLM allocates: blocks of 32 tokens, windows in pools of their own.

Source: NVIDIA/TensorRT-LLM `docs/source/features/kvcache.md`, `_torch/pyexecutor/_util.py`,
`resource_manager.py`. How much memory the pools get: `core/budget.py`.
"""

from __future__ import annotations

from dataclasses import replace

from hfkv.core.architecture import Architecture
from hfkv.core.engines.engine import Engine, text_type
from hfkv.core.stores import Fixed, Grows, Layer, Role, Store
from hfkv.core.workload import Workload

__all__ = ["TRTLLM"]

_BLOCK = 32  # tokens_per_block; 64 in the older engines that are built ahead
# Model types whose `layer_types` become windows of their own; DeepSeek-V4 cannot do without.
_HONOURS_WINDOWS = frozenset(
    {"deepseek_v4", "gemma3_text", "gemma4_text", "gemma4_unified_text", "gpt_oss"}
)


def _slots(store: Store, tokens: int, _workload: Workload) -> int:
    """Return the entries of the blocks that hold a sequence of `tokens`."""
    if isinstance(store, Fixed):
        return 1
    kept = store.slots(tokens)
    return kept if store.role is Role.CROSS else -(-kept // _BLOCK) * _BLOCK


def _adapt(arch: Architecture, _index: int, layer: Layer) -> tuple[Store, ...]:
    if text_type(arch) in _HONOURS_WINDOWS:
        return layer.stores
    return tuple(
        replace(store, window=None, chunked=False) if isinstance(store, Grows) else store
        for store in layer.stores
    )


TRTLLM = Engine(
    name="trtllm",
    adapt=_adapt,
    slots=_slots,
    period=_BLOCK,
    shares_prefixes=True,
    cache_dtypes=("bfloat16", "float16", "fp8", "fp8_e4m3", "int8", "nvfp4"),
)
