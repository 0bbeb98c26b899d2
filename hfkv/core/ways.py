"""What would help when it does not fit, in the order of what it costs the user."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cache

from hfkv.core.balance import Balance, Case, balance_of, largest_context
from hfkv.core.engines.registry import engine_named
from hfkv.core.gpus import Gpu, parse_gpu, table, usable_memory
from hfkv.core.parallel import tensor_parallel_sizes
from hfkv.core.record import dataclass, replace
from hfkv.core.shares import Shares
from hfkv.core.workload import Workload
from hfkv.errors import HfkvError

__all__ = ["Requantize", "WayToFit", "ways_to_fit"]

_WORTHWHILE = Fraction(9, 10)  # of the weights; a format that saves less is not proposed
_CONTEXT_STEP = 256  # a shorter context is proposed in whole steps
# Numbers of GPUs that are tried where any number may share the layers.
_COUNTS = (*range(2, 9), 10, 12, 14, 16, 20, 24, 32, 48, 64, 96, 128, 256, 512, 1024)

# Estimates the bytes of the weights on the GPUs in another format, and what of them would be
# where; None: there is no way.
Requantize = Callable[[str], tuple[int, Shares | None] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WayToFit:
    """One change, the headroom it adds on each GPU in bytes, and whether that is enough.

    `estimate` says that the figure is not exact: weights in a format that nobody has made.
    """

    change: str
    frees_bytes: int
    fits: bool
    estimate: bool = False


def ways_to_fit(
    case: Case, before: Balance, requantize: Requantize | None = None
) -> tuple[WayToFit, ...]:
    """Return single changes that free memory: those that suffice first, then the cheapest.

    Each is weighed anew, so its figures are as exact as the answer it changes. What the
    engine refuses is left out.
    """
    ways = []
    for change, after in _changes(case, before):
        if after is not None:
            ways.append(_way(change, before, after))
    weights = list(_smaller_weights(case, before, requantize)) if requantize else []
    hardware = [_way(change, before, after) for change, after in _hardware(case, before)]
    useful = (way for way in (*ways, *weights, *hardware) if way.frees_bytes > 0)
    return tuple(sorted(useful, key=lambda way: not way.fits))


def _way(change: str, before: Balance, after: Balance, *, estimate: bool = False) -> WayToFit:
    return WayToFit(
        change=change,
        frees_bytes=after.headroom - before.headroom,
        fits=after.headroom >= 0,
        estimate=estimate,
    )


def _weighed(changed: Case) -> Balance | None:
    """Return the balance after a change, None where the engine refuses it."""
    try:
        return balance_of(changed)
    except HfkvError:
        return None


def _changes(case: Case, before: Balance) -> Iterator[tuple[str, Balance | None]]:
    """Yield changes to the work itself."""
    small = engine_named(case.workload.engine).small_dtype
    if small is not None:
        workload = replace(case.workload, kv_dtype=small)
        yield f"--kv-dtype {small}", _weighed(replace(case, workload=workload))
    if case.workload.seq_lens:  # real lengths are not ours to change
        return
    longest = largest_context(before, sequences=case.sequences, limit=case.tokens)
    tokens = longest // _CONTEXT_STEP * _CONTEXT_STEP
    change = _shorter(case.workload, tokens)
    if change:
        yield change, _weighed(replace(case, tokens=tokens))
    sequences = before.most(case.tokens)
    if sequences >= 1:
        requests = sequences // before.beams
        yield f"--concurrency {requests}", _weighed(replace(case, sequences=sequences))


def _shorter(work: Workload, tokens: int) -> str | None:
    """Return how a length is asked for in the user's own terms, None where it makes no sense."""
    if tokens <= work.shared_prefix:
        return None
    if work.prompt is None:
        return f"--context {tokens}"
    prompt = tokens - (work.output or 0)
    return f"--prompt {prompt}" if prompt >= max(1, work.shared_prefix) else None


def _smaller_weights(case: Case, before: Balance, requantize: Requantize) -> Iterator[WayToFit]:
    """Yield weights in the engine's usual formats, down to the first that is enough."""
    for name in engine_named(case.workload.engine).weight_formats:
        found = requantize(name)
        if found is None or case.weights is None or found[0] > case.weights * _WORTHWHILE:
            continue
        changed = replace(case, weights=found[0], shares=found[1])
        after = balance_of(changed, before.rank)
        yield _way(f"--weights-dtype {name}", before, after, estimate=True)
        if after.headroom >= 0:
            return


def _hardware(case: Case, before: Balance) -> Iterator[tuple[str, Balance]]:
    yield from _more_gpus(case, before)
    yield from _larger_gpu(case, before)


def _more_gpus(case: Case, before: Balance) -> Iterator[tuple[str, Balance]]:
    """Yield the next number of GPUs that fits, or the next possible one when none does."""
    deployment = replace(case.workload.deployment, tensor_parallel_size=None)
    workload = replace(case.workload, deployment=deployment)
    stated = case.workload.deployment.tensor_parallel_size is not None
    first = None
    for count in _counts(case, before):
        choice = replace(case.choice, count=count)
        after = _weighed(replace(case, workload=workload, choice=choice))
        if after is None:
            continue
        change = f"--gpu {choice.slug}:{count}" + (f" --tp {after.tp}" if stated else "")
        first = first or (change, after)
        if after.headroom >= 0:
            yield change, after
            return
    if first is not None:
        yield first


def _counts(case: Case, before: Balance) -> Iterable[int]:
    """Return the numbers of GPUs above the present one that can share the model."""
    layers = max(1, len(case.architecture.layers))
    if engine_named(case.workload.engine).splits_layers and before.tp == 1:
        return [count for count in _COUNTS if case.choice.count < count <= layers]
    sizes = tensor_parallel_sizes(case.architecture) or _COUNTS
    return [tp * before.pp for tp in sizes if tp > before.tp and tp * before.pp <= _COUNTS[-1]]


def _larger_gpu(case: Case, before: Balance) -> Iterator[tuple[str, Balance]]:
    """Yield the smallest GPU of the same make that fits, as many of them as now.

    Only GPUs whose memory was read from a device: a proposal to buy must not rest on a box.
    """
    same = next((gpu for gpu in table() if gpu.slug == case.choice.slug), None)
    make = (same.vendor, same.unified) if same else ("nvidia", False)
    least = max(case.choice.memory_bytes + 1, before.weights or 0)
    for gpu in _read_from_devices():
        if (gpu.vendor, gpu.unified) != make or _memory(gpu) < least:
            continue
        name = f"{gpu.slug}:{case.choice.count}" if case.choice.count > 1 else gpu.slug
        after = _weighed(replace(case, choice=parse_gpu(name)[0]))
        if after is not None and after.headroom >= 0:
            yield f"--gpu {name}", after
            return


@cache
def _read_from_devices() -> tuple[Gpu, ...]:
    """Return the GPUs whose memory a driver or a framework was seen to report, smallest first."""
    return tuple(
        sorted((gpu for gpu in table() if gpu.framework_bytes or gpu.driver_bytes), key=_memory)
    )


def _memory(gpu: Gpu) -> int:
    return usable_memory(gpu)[0]
