"""What of a model's portions the fullest rank of a plan holds."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction

from hfkv.core.architecture import Architecture
from hfkv.core.engines.mxfp4 import UNPADDED, Mxfp4Kernel
from hfkv.core.engines.stages import pipeline_stages
from hfkv.core.parallel import layers_of
from hfkv.core.portions import Portion
from hfkv.core.record import dataclass
from hfkv.core.stores import Grows, Role

__all__ = ["Shares", "weights_per_rank"]

_TOWER, _JOINT, _EMBEDDINGS, _LAYERS, _HEAD = range(5)  # in the order that they are made in


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tensor:
    """Tensors that are alike: `copies` of one parameter, where they are and when they are made."""

    parameter: str
    copies: int
    layers: tuple[int, ...]
    stage: str
    everywhere: bool
    turn: int


def _tensor(portion: Portion, *, everywhere: bool) -> _Tensor:
    return _Tensor(
        parameter=portion.parameter,
        copies=portion.copies,
        layers=portion.layers,
        stage=portion.stage,
        everywhere=everywhere,
        turn=portion.turn,
    )


class Shares:
    """What of a model's portions the fullest rank of a plan holds; each plan is worked out once.

    Rows of vocabulary tables are rounded up to a multiple of `padding`, mxfp4 experts are
    laid out for the kernel that the engine takes on a GPU, and `waste` is what its allocator
    hands out beyond the sizes of tensors. Towers, what belongs neither to a layer nor to an
    end of the model, and the roles in `everywhere` are built on every stage.
    Source of the stages: vLLM 0.19, models/llama.py (embeddings with the first layers, and
    with the last too where they are tied; head and last norm with the last).
    """

    def __init__(
        self,
        portions: Iterable[Portion],
        architecture: Architecture,
        *,
        padding: int = 1,
        waste: Callable[[Iterable[int]], int] | None = None,
        everywhere: frozenset[str] = frozenset(),
    ) -> None:
        """Take the portions of one model; the architecture says its heads and layers."""
        self._portions = tuple(portions)
        self._architecture = architecture
        self._padding = padding
        self._waste = waste
        self._everywhere = everywhere
        self._plans: dict[tuple[int, int, Mxfp4Kernel], Fraction] = {}
        self.bytes = sum(portion.bytes for portion in self._portions)
        self.mxfp4_bytes = sum(p.bytes for p in self._portions if p.matrix)

    def on_fullest_rank(self, *, tp: int, pp: int, kernel: Mxfp4Kernel = UNPADDED) -> Fraction:
        """Return the bytes on the fullest rank of the fullest stage."""
        plan = (tp, pp, kernel)
        if plan not in self._plans:
            self._plans[plan] = self._fullest(*plan)
        return self._plans[plan]

    def _fullest(self, tp: int, pp: int, kernel: Mxfp4Kernel) -> Fraction:
        ends = [stage.stop for stage in pipeline_stages(layers_of(self._architecture), pp)]
        placed = [
            (tensor, size, _placed(tensor, ends))
            for tensor, size in self._on_rank(tp, kernel).items()
        ]
        sums = [Fraction(0)] * pp
        for tensor, size, parts in placed:
            for i, (begin, end) in enumerate(parts):
                sums[i] += size * Fraction(end - begin, len(tensor.layers) or 1)
        if self._waste is not None:
            for i in range(pp):
                sums[i] += self._waste(_made((one, size, parts[i]) for one, size, parts in placed))
        return max(sums)

    def _on_rank(self, tp: int, kernel: Mxfp4Kernel) -> dict[_Tensor, Fraction]:
        """Return the bytes of the tensors on one rank of all stages together."""
        heads = _heads(self._architecture) if tp > 1 else []
        tensors: dict[_Tensor, Fraction] = {}
        for portion in self._portions:
            size = portion.bytes * _share(portion, heads, tp)
            if portion.rows:
                size *= _growth(portion.rows, self._padding)
            if portion.matrix:
                size *= kernel.growth(portion.matrix, tp)
            tensor = _tensor(portion, everywhere=portion.role in self._everywhere)
            tensors[tensor] = tensors.get(tensor, Fraction(0)) + size
        return tensors


def _made(tensors: Iterable[tuple[_Tensor, Fraction, tuple[int, int]]]) -> list[int]:
    """Return the sizes of the tensors of a stage in the order that they are made in.

    Towers are first, then embeddings, layer by layer what has its turn, and the head.
    """
    made: list[tuple[int, int, int, str, int]] = []
    for tensor, size, (begin, end) in tensors:
        if not tensor.parameter or begin == end:
            continue
        like = (tensor.turn, tensor.parameter, math.ceil(size / tensor.copies))
        if tensor.layers:
            each = range(max(1, tensor.copies // len(tensor.layers)))
            made += [(_LAYERS, layer, *like) for layer in tensor.layers[begin:end] for _ in each]
        elif tensor.stage == "all":
            made += [(*place, *like) for place in _in_tower(tensor)]
        else:
            made.append((_HEAD if tensor.stage == "last" else _EMBEDDINGS, 0, *like))
    return [one[-1] for one in sorted(made)]


def _in_tower(tensor: _Tensor) -> Iterable[tuple[int, int]]:
    """Return when tensors of a tower are made: its embeddings, its layers, what joins it on."""
    if tensor.copies > 1:
        return ((_TOWER, number) for number in range(tensor.copies))
    return ((_TOWER, -1) if "embed" in tensor.parameter else (_JOINT, 0),)


def _growth(size: int, multiple: int) -> Fraction:
    """Return by how much a size grows when it is rounded up to a multiple."""
    return Fraction(-(-size // multiple) * multiple, size)


def _placed(tensor: _Tensor, ends: list[int]) -> list[tuple[int, int]]:
    """Return which of its layers each stage has, of one where it belongs to no layer.

    What is behind the last end is the last's.
    """
    last = len(ends) - 1
    if not tensor.layers:
        here = {"first": {0}, "last": {last}, "ends": {0, last}}.get(tensor.stage)
        whole = tensor.everywhere or here is None
        return [(0, int(whole or i in (here or ()))) for i in range(last + 1)]
    cuts = [bisect_left(tensor.layers, end) for end in ends[:-1]]
    return list(zip((0, *cuts), (*cuts, len(tensor.layers)), strict=True))


Heads = tuple[int | None, int | None]  # query and KV heads of a layer


def _share(portion: Portion, heads: list[Heads], tp: int) -> Fraction:
    """Return which share of a portion one tensor-parallel rank has."""
    if portion.cut == "copied" or tp == 1:
        return Fraction(1)
    if portion.cut == "evenly" or not portion.layers:
        return Fraction(1, tp)
    known = len(heads) - 1
    found = Counter(heads[min(layer, known)] for layer in portion.layers)
    total = sum((n * _of_heads(portion.cut, *h, tp) for h, n in found.items()), Fraction(0))
    return total / len(portion.layers)


def _heads(architecture: Architecture) -> list[Heads]:
    """Return the query and KV heads of every layer, and last those of a layer that is not known."""
    found: list[Heads] = []
    for layer in architecture.layers:
        kept = (s.heads for s in layer.stores if isinstance(s, Grows) and s.role is Role.KV)
        found.append((layer.heads, next(kept, None)))
    return [*found, (architecture.num_attention_heads, architecture.num_key_value_heads)]


def _of_heads(cut: str, heads: int | None, kv_heads: int | None, tp: int) -> Fraction:
    if kv_heads is None or kv_heads >= tp or (cut == "fused" and heads is None):
        return Fraction(1, tp)
    copied = Fraction(1, kv_heads)
    if cut == "by-kv-heads":
        return copied
    keys_values = Fraction(2 * kv_heads, (heads or 0) + 2 * kv_heads)
    return keys_values * copied + (1 - keys_values) / tp


def weights_per_rank(
    architecture: Architecture,
    weights: int,
    shares: Shares | None = None,
    *,
    tp: int,
    pp: int,
    kernel: Mxfp4Kernel = UNPADDED,
) -> int:
    """Return the bytes of weights on the fullest rank, rounded up.

    `shares` say what is where, whatever they sum to: an offload shrinks all alike.
    `kernel` is how mxfp4 experts are laid out.
    Without any it is an estimate: whole layers are dealt to stages, and a stage is split
    evenly by tensor parallelism.
    """
    if shares is not None and shares.bytes:
        return math.ceil(
            shares.on_fullest_rank(tp=tp, pp=pp, kernel=kernel) * weights / shares.bytes
        )
    layers = layers_of(architecture)
    stage = -(-layers // pp)
    return -(-weights * stage // (layers * tp))
