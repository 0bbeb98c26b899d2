"""The balance of one GPU: what it may hold, what the model takes, what is left."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from hfkv.core.architecture import Architecture
from hfkv.core.budget import (
    OverheadPart,
    default_share,
    engine_step,
    estimate_overhead,
    room,
    utilization,
)
from hfkv.core.engines.registry import engine_named
from hfkv.core.parallel import parallel_sizes, weights_per_rank
from hfkv.core.workload import GpuChoice, Workload
from hfkv.errors import UsageError

__all__ = ["Balance", "Case", "Measure", "balance_of", "largest_context"]


class Measure(Protocol):
    """How the cache is measured: `hfkv.core.kv.measure` of one model under one engine."""

    def __call__(self, workload: Workload, *, tokens: int, tp: int, pp: int) -> int:
        """Return the bytes that one sequence of `tokens` takes on the most loaded rank.

        It heeds `workload.kv_dtype`, and never returns less for more tokens.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question: this model, this work, these GPUs.

    `weights` are all bytes to be loaded, None when they are not known; `tokens` and
    `sequences` are what was asked, resolved.
    """

    architecture: Architecture
    weights: int | None
    workload: Workload
    tokens: int
    sequences: int
    choice: GpuChoice
    measure: Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The account of one case, in bytes on the fullest GPU.

    budget = overhead + weights + room, and room = needed + headroom. `room` is for the
    cache; it and `headroom` may be negative. `least_room` and `most_room` are what the
    range of the overhead makes of it.
    """

    tp: int
    pp: int
    utilization: Fraction
    budget: int
    weights: int | None
    overhead: int
    parts: tuple[OverheadPart, ...]
    per_sequence: int
    needed: int
    least_room: int
    most_room: int
    overhead_low: int
    overhead_high: int

    @property
    def room(self) -> int:
        """Return what is left for the cache."""
        return self.budget - self.overhead - (self.weights or 0)

    @property
    def headroom(self) -> int:
        """Return what is left when every asked sequence is in the cache."""
        return self.room - self.needed


def balance_of(case: Case) -> Balance:
    """Return the balance of `case`.

    Raises UsageError for a share, an overhead or parallel sizes that make no sense.
    """
    workload, weights = case.workload, case.weights
    tp, pp = _sizes(case)
    share = _share(case, ranks=tp * pp)
    parts = _overhead(case, budget=math.floor(case.choice.memory_bytes * share), ranks=tp)
    loaded = weights and weights_per_rank(case.architecture, weights, tp=tp, pp=pp)
    per_sequence = case.measure(workload, tokens=case.tokens, tp=tp, pp=pp)
    lengths = workload.seq_lens

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
    return Balance(
        tp=tp,
        pp=pp,
        utilization=share,
        budget=likely + (loaded or 0) + left(likely),
        weights=loaded,
        overhead=likely,
        parts=() if workload.deployment.overhead_bytes is not None else parts,
        per_sequence=per_sequence,
        needed=sum(case.measure(workload, tokens=n, tp=tp, pp=pp) for n in lengths)
        if lengths
        else case.sequences * per_sequence,
        least_room=left(high),
        most_room=left(low, more=_unseen(case.choice)),
        overhead_low=low,
        overhead_high=high,
    )


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


def _share(case: Case, *, ranks: int) -> Fraction:
    deployment, engine = case.workload.deployment, case.workload.engine
    default = default_share(case.architecture, deployment, engine, case.choice, ranks=ranks)
    return utilization(deployment, engine, default=default)


def largest_context(case: Case, balance: Balance, *, sequences: int, limit: int) -> int:
    """Return the longest context, at most `limit`, at which `sequences` have room; else 0."""

    def fits(tokens: int) -> bool:
        one = case.measure(case.workload, tokens=tokens, tp=balance.tp, pp=balance.pp)
        return sequences * one <= balance.room

    if fits(limit):
        return limit
    low, high = 0, limit  # `low` has room or is nothing, `high` has none
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _overhead(case: Case, *, budget: int, ranks: int) -> tuple[OverheadPart, ...]:
    deployment, engine = case.workload.deployment, case.workload.engine
    stated = deployment.overhead_bytes
    if stated is None:
        return estimate_overhead(
            case.architecture,
            engine_step(deployment, engine, case.choice, case.sequences, tokens=case.tokens),
            case.choice,
            engine=engine,
            version=deployment.engine_version,
            budget=budget,
            ranks=ranks,
            tokens=case.tokens,
        )
    if stated < 0:
        raise UsageError(
            f"--overhead {stated} is negative", hint="give a size such as 2gib", code="overhead"
        )
    return (OverheadPart(name="stated", bytes=stated),)
