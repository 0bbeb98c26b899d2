"""Which layers a pipeline stage holds."""

from __future__ import annotations

from itertools import accumulate

__all__ = ["pipeline_stages"]


def pipeline_stages(layers: int, stages: int) -> list[range]:
    """Return the layers of each pipeline stage, the way vLLM cuts them.

    What does not divide goes to the stages before the last one, which has the head.
    Source: vLLM 0.32 distributed/utils.py, get_pp_indices.
    """
    sizes = [layers // stages] * stages
    for i in range(layers % stages):
        sizes[-(i + 2) if stages > 1 else 0] += 1
    ends = accumulate(sizes)
    return [range(end - size, end) for end, size in zip(ends, sizes, strict=True)]
