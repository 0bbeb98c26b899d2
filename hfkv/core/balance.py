"""The balance of one GPU: what it may hold, what the model takes, what is left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from hfkv.core.architecture import Architecture
from hfkv.core.budget import OverheadPart, engine_step, estimate_overhead, utilization
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
    cache; it and `headroom` may be negative.
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
    workload, deployment = case.workload, case.workload.deployment
    tp, pp = parallel_sizes(case.architecture, deployment, case.choice)
    share = utilization(deployment, workload.engine)
    budget = math.floor(case.choice.memory_bytes * share)
    parts = _overhead(case, budget=budget, ranks=tp * pp)
    weights = case.weights
    per_sequence = case.measure(workload, tokens=case.tokens, tp=tp, pp=pp)
    lengths = workload.seq_lens
    return Balance(
        tp=tp,
        pp=pp,
        utilization=share,
        budget=budget,
        weights=weights and weights_per_rank(case.architecture, weights, tp=tp, pp=pp),
        overhead=sum(part.bytes for part in parts),
        parts=() if deployment.overhead_bytes is not None else parts,
        per_sequence=per_sequence,
        needed=sum(case.measure(workload, tokens=n, tp=tp, pp=pp) for n in lengths)
        if lengths
        else case.sequences * per_sequence,
    )


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
            engine_step(deployment, engine, case.choice, case.sequences),
            case.choice,
            engine=engine,
            version=deployment.engine_version,
            budget=budget,
            ranks=ranks,
        )
    if stated < 0:
        raise UsageError(
            f"--overhead {stated} is negative", hint="give a size such as 2gib", code="overhead"
        )
    return (OverheadPart(name="stated", bytes=stated),)
