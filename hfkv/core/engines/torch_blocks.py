"""What torch's caching allocator hands out beyond the sizes of tensors, and counts as allocated.

Tensors above 1 MiB are cut from segments: of 20 MiB for those below 10 MiB, else of whole steps
of 2 MiB. The smallest rest of a segment that is large enough comes first, and a rest of at most
1 MiB is not split off: the tensor has it. Smaller tensors waste nothing to speak of.
Source: PyTorch 2.10, c10/cuda/CUDACachingAllocator.cpp (`get_allocation_size`, `should_split`,
kSmallSize, kLargeBuffer, kMinLargeAlloc, kRoundLarge), without `expandable_segments`. vLLM's
"Model loading took" is `max_memory_allocated`: of gemma-3-27b 62 x 441 MiB are in 442.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

__all__ = ["torch_waste"]

_MIB = 2**20
_SMALL, _LARGE, _STEP, _SHARED = _MIB, 10 * _MIB, 2 * _MIB, 20 * _MIB
_RESTS = 1024  # remembered: a model has some dozens


def torch_waste(tensors: Iterable[int]) -> int:
    """Return the bytes that tensors have beyond their sizes, made one after the other.

    >>> torch_waste([11 * 2**20]) == 2**20
    True
    """
    rests: list[int] = []  # of segments, the smallest first
    waste = 0
    for size in tensors:
        if size <= _SMALL:
            continue
        first = bisect_left(rests, size)
        if first < len(rests):
            block = rests.pop(first)
        else:
            block = _SHARED if size < _LARGE else -(-size // _STEP) * _STEP
        rest = block - size
        if rest <= _SMALL:
            waste += rest
        else:
            insort(rests, rest)
            del rests[:-_RESTS]
    return waste
