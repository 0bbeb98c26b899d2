"""How many GPUs share one model: which tensor and pipeline parallel sizes are possible."""

from __future__ import annotations

import math

from hfkv.core.architecture import Architecture
from hfkv.core.counts import counted
from hfkv.core.stores import Grows, Role
from hfkv.core.workload import Deployment, GpuChoice
from hfkv.errors import UsageError

__all__ = ["check_sizes", "layers_of", "parallel_sizes", "tensor_parallel_sizes"]

_MAX_RANKS = 1024


def tensor_parallel_sizes(architecture: Architecture) -> tuple[int, ...]:
    """Return the tensor parallel sizes that split the heads evenly; empty: no heads to split.

    Every rank gets the same number of attention heads. KV heads are divided too or, where
    there are fewer of them than ranks, each is copied to the same number of ranks.
    """
    heads = {layer.heads for layer in architecture.layers} | {architecture.num_attention_heads}
    common = math.gcd(*(number for number in heads if number))
    shared = {
        store.heads
        for layer in architecture.layers
        for store in layer.stores
        if isinstance(store, Grows) and store.role in (Role.KV, Role.CROSS) and store.heads
    }
    return tuple(
        size
        for size in range(1, min(common, _MAX_RANKS) + 1)
        if common % size == 0 and all(kv % size == 0 or size % kv == 0 for kv in shared)
    )


def parallel_sizes(
    architecture: Architecture, deployment: Deployment, choice: GpuChoice
) -> tuple[int, int]:
    """Return the tensor and pipeline parallel sizes; together they use every GPU.

    Raises UsageError where they cannot, naming sizes that can.
    """
    pp = deployment.pipeline_parallel_size
    _check_stages(architecture, pp)
    tp = deployment.tensor_parallel_size
    if tp is None:
        tp = max(1, choice.count // pp)
    valid = _refused(architecture, tp)
    if valid:
        raise _uneven(tp, valid, _stages(valid, layers_of(architecture), choice))
    if pp > choice.count:
        raise UsageError(
            f"--pp {pp} needs {pp} GPUs, and there is {choice.count} x {choice.slug}",
            hint=_as_many(choice, max(1, tp) * pp),
            code="pp",
        )
    if tp < 1 or tp * pp != choice.count:
        raise UsageError(
            f"tensor parallel size {tp} x pipeline parallel size {pp} does not use "
            f"{choice.count} x {choice.slug}",
            hint=_as_many(choice, max(1, tp) * pp),
            code="tp",
        )
    return tp, pp


def check_sizes(architecture: Architecture, deployment: Deployment) -> None:
    """Raise UsageError for parallel sizes that no number of GPUs can have.

    Where GPUs are named, `parallel_sizes` goes by their number as well.
    """
    _check_stages(architecture, deployment.pipeline_parallel_size)
    if deployment.gpus:
        return
    stated = deployment.tensor_parallel_size
    tp = 1 if stated is None else stated
    valid = _refused(architecture, tp) or ((1,) if tp < 1 else ())
    if valid:
        raise _uneven(tp, valid)


def _check_stages(architecture: Architecture, pp: int) -> None:
    layers = layers_of(architecture)
    if not 1 <= pp <= layers:
        raise UsageError(
            f"--pp {pp} is not a number of stages for {counted(layers, 'layer')}",
            hint=f"it is a number from 1 to {layers}",
            code="pp",
        )


def _refused(architecture: Architecture, tp: int) -> tuple[int, ...]:
    """Return the sizes that do where this one does not, nothing where it does."""
    valid = tensor_parallel_sizes(architecture) if tp > 1 else ()
    return () if tp in valid else valid


def _uneven(tp: int, valid: tuple[int, ...], stages: str = "") -> UsageError:
    return UsageError(
        f"tensor parallel size {tp} does not split the model's attention heads evenly",
        hint="sizes that do: " + ", ".join(map(str, valid)) + stages,
        code="tp",
    )


def _as_many(choice: GpuChoice, ranks: int) -> str:
    """Return what so many ranks need; `--gpu` takes no more than the most."""
    most = f"at most {_MAX_RANKS:,}"
    example = f"for example --gpu {choice.slug}:{ranks}" if ranks <= _MAX_RANKS else most
    return f"--tp times --pp is the number of GPUs, {example}"


def _stages(valid: tuple[int, ...], layers: int, choice: GpuChoice) -> str:
    """Return how all the GPUs can be used with stages as well, nothing where they cannot."""
    count = choice.count
    sizes = [tp for tp in valid if count % tp == 0 and 1 < count // tp <= layers]
    return f"; with stages --tp {max(sizes)} --pp {count // max(sizes)}" if sizes else ""


def layers_of(architecture: Architecture) -> int:
    """Return how many layers stages share out, at least one."""
    return max(1, architecture.num_hidden_layers or len(architecture.layers))
