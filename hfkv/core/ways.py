"""What would help when it does not fit, in the order of what it costs the user."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hfkv.core.balance import Balance, Case, balance_of, largest_context
from hfkv.core.engines.registry import engine_named
from hfkv.core.gpus import Gpu, parse_gpu, table, usable_memory
from hfkv.core.parallel import tensor_parallel_sizes

__all__ = ["WayToFit", "ways_to_fit"]

_CONTEXT_STEP = 256  # a shorter context is proposed in whole steps
_MAX_GPUS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WayToFit:
    """One change, the headroom it adds on each GPU in bytes, and whether that is enough."""

    change: str
    frees_bytes: int
    fits: bool


def ways_to_fit(case: Case, before: Balance) -> tuple[WayToFit, ...]:
    """Return single changes that free memory: those that suffice first, then the cheapest.

    Each is weighed anew, so its figures are as exact as the answer it changes.
    """
    ways = []
    for change, changed in _changes(case, before):
        after = balance_of(changed)
        ways.append(
            WayToFit(
                change=change,
                frees_bytes=after.headroom - before.headroom,
                fits=after.headroom >= 0,
            )
        )
    return tuple(sorted((way for way in ways if way.frees_bytes > 0), key=lambda way: not way.fits))


def _changes(case: Case, before: Balance) -> Iterator[tuple[str, Case]]:
    small = engine_named(case.workload.engine).small_dtype
    yield f"--kv-dtype {small}", replace(case, workload=replace(case.workload, kv_dtype=small))
    if not case.workload.seq_lens:  # real lengths are not ours to change
        yield from _shorter(case, before)
        yield from _fewer(case, before)
    yield from _more_gpus(case, before)
    yield from _larger_gpu(case)


def _shorter(case: Case, before: Balance) -> Iterator[tuple[str, Case]]:
    longest = largest_context(case, before, sequences=case.sequences, limit=case.tokens)
    tokens = longest // _CONTEXT_STEP * _CONTEXT_STEP
    if tokens:
        yield f"--context {tokens}", replace(case, tokens=tokens)


def _fewer(case: Case, before: Balance) -> Iterator[tuple[str, Case]]:
    sequences = before.room // before.per_sequence if before.per_sequence else 0
    if sequences >= 1:
        yield f"--concurrency {sequences}", replace(case, sequences=sequences)


def _more_gpus(case: Case, before: Balance) -> Iterator[tuple[str, Case]]:
    """Propose the next number of GPUs that fits, or the next possible one when none does."""
    sizes = tensor_parallel_sizes(case.architecture) or tuple(2**power for power in range(11))
    counts = [tp * before.pp for tp in sizes if tp > before.tp and tp * before.pp <= _MAX_GPUS]
    deployment = replace(case.workload.deployment, tensor_parallel_size=None)
    workload = replace(case.workload, deployment=deployment)
    more = [
        replace(case, workload=workload, choice=replace(case.choice, count=count))
        for count in counts
    ]
    enough = next((changed for changed in more if balance_of(changed).headroom >= 0), None)
    for changed in [enough] if enough else more[:1]:
        count = changed.choice.count
        stated = case.workload.deployment.tensor_parallel_size is not None
        yield (
            f"--gpu {case.choice.slug}:{count}" + (f" --tp {count // before.pp}" if stated else ""),
            changed,
        )


def _larger_gpu(case: Case) -> Iterator[tuple[str, Case]]:
    """Propose the smallest GPU of the same make that fits, as many of them as now.

    Only GPUs whose memory was read from a device: a proposal to buy must not rest on a box.
    """
    same = next((gpu for gpu in table() if gpu.slug == case.choice.slug), None)
    make = (same.vendor, same.unified) if same else ("nvidia", False)
    read = [gpu for gpu in table() if gpu.framework_bytes or gpu.driver_bytes]
    for gpu in sorted(read, key=_memory):
        if (gpu.vendor, gpu.unified) != make or _memory(gpu) <= case.choice.memory_bytes:
            continue
        name = f"{gpu.slug}:{case.choice.count}" if case.choice.count > 1 else gpu.slug
        changed = replace(case, choice=parse_gpu(name)[0])
        if balance_of(changed).headroom >= 0:
            yield f"--gpu {name}", changed
            return


def _memory(gpu: Gpu) -> int:
    return usable_memory(gpu)[0]
