"""The balance of one GPU: what it may hold, what the model takes, what is left."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

from hfkv.core.architecture import Architecture
from hfkv.core.budget import (
    EngineStep,
    OverheadPart,
    default_share,
    engine_steps,
    estimate_overhead,
    room,
    utilization,
)
from hfkv.core.engines.engine import Rank
from hfkv.core.engines.mxfp4 import UNPADDED, Mxfp4Kernel
from hfkv.core.engines.registry import engine_named
from hfkv.core.engines.vllm_options import whole_prompts
from hfkv.core.parallel import parallel_sizes
from hfkv.core.record import dataclass, replace
from hfkv.core.shares import Shares, weights_per_rank
from hfkv.core.workload import GpuChoice, Workload
from hfkv.errors import UsageError

__all__ = ["UNLIMITED", "Balance", "Case", "Ranks", "balance_of", "largest_context"]

# Finds the fullest rank of a workload whose deployment names its GPUs and parallel sizes.
Ranks = Callable[[Workload], Rank]

UNLIMITED = 2**20  # sequences; shown where a sequence takes no memory at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question: this model, this work, these GPUs.

    `weights` are all bytes to be loaded on the GPUs, None when they are not known, and
    `shares` what of them is where, if tensors were seen; `tokens` and `sequences` are what
    was asked, resolved.
    """

    architecture: Architecture
    weights: int | None
    workload: Workload
    tokens: int
    sequences: int
    choice: GpuChoice
    ranks: Ranks
    shares: Shares | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The account of one case, in bytes on the fullest GPU.

    budget = overhead + weights + room, and room is for the cache. `needed` is everything
    that was asked for. `least_room` and `most_room` are what the range of the overhead
    makes of the room. `prefix` tokens are the same in all sequences, and up to `moves`
    bytes of the cache may be in host memory, but not those of the last sequence where the
    engine `pages`. With `beams` the rank answers for a request of so many sequences.
    `shift(tokens, sequences)` is what the working memory for those adds to the room,
    and `kernel` how mxfp4 experts are laid out.
    """

    tp: int
    pp: int
    utilization: Fraction
    budget: int
    weights: int | None
    overhead: int
    parts: tuple[OverheadPart, ...]
    rank: Rank
    prefix: int
    moves: int
    pages: bool
    per_sequence: int
    needed: int
    least_room: int
    most_room: int
    overhead_low: int
    overhead_high: int
    shift: Callable[[int, int], int]
    kernel: Mxfp4Kernel = UNPADDED
    beams: int = 1

    @property
    def room(self) -> int:
        """Return what is left for the cache; it may be negative."""
        return self.budget - self.overhead - (self.weights or 0)

    @property
    def headroom(self) -> int:
        """Return what is left when every asked sequence is in the cache; negative: missing."""
        return self.headroom_in(self.room)

    @property
    def moved(self) -> int:
        """Return the part of the cache that is in host memory: what finds no room here."""
        spill = self.needed - (self.room - self.rank.held_back)
        return max(0, min(spill, self._movable(self.needed, self.per_sequence)))

    def headroom_in(self, room: int) -> int:
        """Return the headroom that another room would leave."""
        movable = self._movable(self.needed, self.per_sequence)
        return room - self.rank.held_back + movable - self.needed

    def holds(self, tokens: int, sequences: int) -> bool:
        """Tell whether so many sequences of so many tokens find room."""
        one, requests = self.rank.reserved(tokens), -(-sequences // self.beams)
        total = requests * one - (requests - 1) * self._shared(tokens)
        return total - self._movable(total, one) <= self._space(tokens, sequences)

    def most(self, tokens: int, sizes: Callable[[int], int] | None = None) -> int:
        """Return how many sequences of so many tokens find room, by another size if given.

        They do so beside the working memory that as many of them need.
        """
        one = (sizes or self.rank.reserved)(tokens)
        high = self._beside(1, tokens, one)
        low = self._beside(high, tokens, one)
        if low >= high:
            return high
        while high - low > 1:  # `low` find room, `high` do not
            middle = (low + high) // 2
            enough = self._beside(middle, tokens, one) >= middle
            low, high = (middle, high) if enough else (low, middle)
        return low // self.beams * self.beams

    def _beside(self, sequences: int, tokens: int, one: int) -> int:
        """Return how many find room beside the working memory of `sequences`."""
        space = self._space(tokens, sequences)
        if one - self._movable(one, one) > space:
            return 0
        shared = min(one, self._shared(tokens))
        alone = one - shared
        return (space + self.moves - shared) // alone * self.beams if alone else UNLIMITED

    def _space(self, tokens: int, sequences: int) -> int:
        return self.room + self.shift(tokens, sequences) - self.rank.held_back

    def _shared(self, tokens: int) -> int:
        return self.rank.shared(self.prefix, tokens) if self.prefix else 0

    def _movable(self, total: int, one: int) -> int:
        return max(0, min(self.moves, total - (one if self.pages else 0)))


def _placed(case: Case, tp: int, pp: int) -> Workload:
    """Return the workload with its GPUs and parallel sizes spelled out."""
    deployment = replace(
        case.workload.deployment,
        gpus=(case.choice,),
        tensor_parallel_size=tp,
        pipeline_parallel_size=pp,
    )
    return replace(case.workload, deployment=deployment)


def balance_of(case: Case, rank: Rank | None = None) -> Balance:
    """Return the balance of `case`; `rank` saves finding what is known already.

    Raises UsageError for a share, an overhead or parallel sizes that make no sense.
    """
    workload, weights = case.workload, case.weights
    tp, pp = _sizes(case)
    share = _share(case, tp, pp)
    spent = _overhead(case, budget=math.floor(case.choice.memory_bytes * share), ranks=tp)
    parts = spent(case.tokens, case.sequences)
    kernel = engine_named(workload.engine).mxfp4_kernel(
        case.choice, workload.deployment.engine_version
    )
    loaded = weights and weights_per_rank(
        case.architecture, weights, case.shares, tp=tp, pp=pp, kernel=kernel
    )
    rank = rank or case.ranks(_placed(case, tp, pp))

    def left(overhead: int, *, more: int = 0) -> int:
        return room(
            workload.engine,
            memory=case.choice.memory_bytes + more,
            share=share,
            overhead=overhead,
            weights=loaded or 0,
        )

    low, likely = sum(part.low for part in parts), sum(part.bytes for part in parts)
    high = sum(part.high for part in parts)

    def shift(tokens: int, sequences: int) -> int:
        changed = spent(tokens, sequences)
        return 0 if changed is parts else left(sum(p.bytes for p in changed)) - left(likely)

    return Balance(
        tp=tp,
        pp=pp,
        utilization=share,
        budget=likely + (loaded or 0) + left(likely),
        weights=loaded,
        overhead=likely,
        parts=() if workload.deployment.overhead_bytes is not None else parts,
        rank=rank,
        prefix=workload.shared_prefix,
        moves=workload.deployment.host_kv_bytes // (tp * pp),
        pages=engine_named(workload.engine).shares_prefixes,
        per_sequence=-(-rank.reserved(case.tokens) // workload.beams),
        needed=_needed(case, rank),
        least_room=left(high),
        most_room=left(low, more=_unseen(case.choice)),
        overhead_low=low,
        overhead_high=high,
        shift=shift,
        kernel=kernel,
        beams=workload.beams,
    )


def _needed(case: Case, rank: Rank) -> int:
    """Return what all asked sequences take; a common prefix is counted once."""
    prefix, lengths = case.workload.shared_prefix, case.workload.seq_lens
    if not lengths:
        one, requests = rank.reserved(case.tokens), case.sequences // case.workload.beams
        return requests * one - (requests - 1) * rank.shared(prefix, case.tokens)
    first, *others = sorted(lengths, reverse=True)
    return rank.reserved(first) + sum(rank.reserved(n) - rank.shared(prefix, n) for n in others)


def _unseen(choice: GpuChoice) -> int:
    """Return by how much a card's total may exceed the lowest that was seen.

    Drivers and firmware move it: by 1.2 % on a T4, 2.1 % on a GB10, 0.1 % on an A100.
    """
    return choice.memory_bytes // 48 if choice.memory_source == "framework total" else 0


def _sizes(case: Case) -> tuple[int, int]:
    """Return the parallel sizes; an engine that splits layers does so unless it is told."""
    deployment = case.workload.deployment
    stated = deployment.tensor_parallel_size or deployment.pipeline_parallel_size > 1
    if engine_named(case.workload.engine).splits_layers and not stated:
        deployment = replace(
            deployment, tensor_parallel_size=1, pipeline_parallel_size=case.choice.count
        )
    return parallel_sizes(case.architecture, deployment, case.choice)


def _share(case: Case, tp: int, pp: int) -> Fraction:
    deployment, engine = case.workload.deployment, case.workload.engine
    default = default_share(case.architecture, deployment, engine, case.choice, tp=tp, pp=pp)
    return utilization(deployment, engine, default=default)


def largest_context(balance: Balance, *, sequences: int, limit: int) -> int:
    """Return the longest context, at most `limit`, at which `sequences` have room; else 0."""
    if balance.holds(limit, sequences):
        return limit
    low, high = 0, limit  # `low` has room or is nothing, `high` has none
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if balance.holds(middle, sequences) else (low, middle)
    return low


def _overhead(
    case: Case, *, budget: int, ranks: int
) -> Callable[[int, int], tuple[OverheadPart, ...]]:
    """Return what is spent on neither weights nor cache, by tokens and sequences."""
    deployment, engine = case.workload.deployment, case.workload.engine
    stated = deployment.overhead_bytes
    if stated is not None and stated < 0:
        raise UsageError(
            f"--overhead {stated} is negative", hint="give a size such as 2gib", code="overhead"
        )

    @cache
    def estimated(step: EngineStep, tokens: int) -> tuple[OverheadPart, ...]:
        return estimate_overhead(
            case.architecture,
            step,
            case.choice,
            engine=engine,
            version=deployment.engine_version,
            budget=budget,
            ranks=ranks,
            tokens=tokens,
            eager=deployment.enforce_eager,
        )

    whole = whole_prompts(case.architecture)
    step = engine_steps(deployment, engine, case.choice, whole_prompts=whole)
    masked = engine_named(engine).splits_layers  # llama.cpp's mask grows with the context

    def spent(tokens: int, sequences: int) -> tuple[OverheadPart, ...]:
        return estimated(step(tokens, sequences), tokens if masked else 0)

    if stated is None:
        return spent
    known = (OverheadPart(name="stated", bytes=stated),)
    return lambda _tokens, _sequences: known
