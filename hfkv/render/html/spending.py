"""What the estimate of the overhead depends on, for the script that makes it anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hfkv.core.architecture import Architecture
from hfkv.core.budget import (
    default_share,
    engine_step,
    estimate_overhead,
    loaded_beside_weights,
)
from hfkv.core.gpus import parse_gpu
from hfkv.core.workload import GpuChoice, Workload

__all__ = ["shares", "spending"]

_ANY = 2**20  # tokens
_ANONYMOUS = parse_gpu("80gb")[0]


def spending(arch: Architecture, work: Workload) -> dict[str, Any]:
    """Return engine steps and the stated overhead, or the sizes that it is estimated from.

    `steps` are tokens and sequences (None: as asked) of one step, the first one that of
    every GPU that `step_of` does not name. `beside` are parts that are loaded with the
    weights, chosen in the same way.
    """
    found = {gpu.slug: _step(work, gpu) for gpu in _choices(work)}
    steps = list(dict.fromkeys(found.values()))
    step = {
        "steps": [list(step) for step in steps],
        "step_of": {slug: n for slug, step in found.items() if (n := steps.index(step))},
    }
    if work.deployment.overhead_bytes is not None:
        return {"stated": work.deployment.overhead_bytes, **step}
    parts = {gpu.slug: _beside(arch, work, gpu) for gpu in _choices(work)}
    beside = list(dict.fromkeys([_beside(arch, work, _ANONYMOUS), *parts.values()]))
    return {
        "hidden": arch.hidden_size or 0,
        "vocab": arch.vocab_size or 0,
        "active": (arch.experts.active or 0) if arch.experts else 0,
        "towers": arch.text_model_type != arch.model_type,
        "graphs": _captures_graphs(arch, work),
        **step,
        "beside": beside,
        "beside_of": {slug: n for slug, part in parts.items() if (n := beside.index(part))},
    }


def _beside(arch: Architecture, work: Workload, gpu: GpuChoice) -> tuple[tuple[Any, ...], ...]:
    """Return names and lowest, likely and highest bytes."""
    found = loaded_beside_weights(
        arch, gpu, engine=work.engine, version=work.deployment.engine_version
    )
    return tuple((part.name, (part.low, part.bytes, part.high)) for part in found)


def shares(arch: Architecture, work: Workload, splits: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the engine's share by GPU and number of GPUs, where it has no one share for all."""
    if work.deployment.utilization is not None:
        return {}
    found: dict[str, Any] = {}
    for gpu in _choices(work):
        for split in splits:
            if "refused" in split:
                continue
            tp, pp = split["tp"], split["pp"]
            share = default_share(arch, work.deployment, work.engine, gpu, tp=tp, pp=pp)
            if share is None:
                return {}
            by_count = found.setdefault(gpu.slug, {})
            by_count[str(split["count"])] = list(share.as_integer_ratio())
    return found


def _choices(work: Workload) -> Iterator[GpuChoice]:
    yield from parse_gpu("all")
    yield from work.deployment.gpus


def _step(work: Workload, gpu: GpuChoice) -> tuple[int, int | None]:
    one, many = (
        engine_step(work.deployment, work.engine, gpu, sequences, tokens=_ANY)
        for sequences in (1, 1000)
    )
    return one.batched_tokens, one.max_num_seqs if one == many else None


def _captures_graphs(arch: Architecture, work: Workload) -> bool:
    parts = estimate_overhead(
        arch,
        engine_step(work.deployment, work.engine, _ANONYMOUS, 1, tokens=_ANY),
        _ANONYMOUS,
        engine=work.engine,
        version=work.deployment.engine_version,
        budget=0,
        ranks=1,
        eager=work.deployment.enforce_eager,
    )
    return any(part.name == "captured graphs" for part in parts)
