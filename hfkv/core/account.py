"""What the calculator answers: one workload of a structure in full, and the tables around it."""

from __future__ import annotations

import math
from dataclasses import field
from fractions import Fraction
from functools import cache, partial

from hfkv.core.architecture import Architecture
from hfkv.core.calculator import (
    Cell,
    Step,
    Structure,
    architecture_of,
    calculate,
    grid,
    ladder,
    measured,
)
from hfkv.core.dtypes import cache_dtype
from hfkv.core.files import ModelFiles, Target
from hfkv.core.fit import FitReport, fit
from hfkv.core.kv import KVReport
from hfkv.core.record import dataclass
from hfkv.core.report import Report
from hfkv.core.weights import WeightReport
from hfkv.core.workload import Deployment, Workload
from hfkv.errors import UsageError

__all__ = ["Account", "Capacity", "Request", "account", "stated_weights"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the calculator is asked: every context with every concurrency, in one format."""

    contexts: tuple[int, ...]
    sequences: tuple[int, ...]
    kv_dtype: str
    weights: WeightReport | None = None
    in_use: Fraction | None = None
    deployment: Deployment = field(default_factory=Deployment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What one GPU choice holds of sequences of `tokens`."""

    tokens: int
    fit: FitReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The answer: `report` and `ladder` are of the longest context at the highest concurrency.

    `in_use` is the share of the reserved cache that holds tokens, where one was stated.
    """

    structure: Structure
    report: Report
    grid: tuple[Cell, ...]
    ladder: tuple[Step, ...]
    capacity: tuple[Capacity, ...]
    in_use: Fraction | None

    def used(self, nbytes: int) -> int | None:
        """Return how many of the reserved bytes hold tokens, None where no share was stated."""
        return None if self.in_use is None else math.floor(nbytes * self.in_use)


def stated_weights(
    *, size: int | None, parameters: int | None, dtype: str | None
) -> WeightReport | None:
    """Return weights that are given in bytes, or as a number of parameters in a format.

    Plain bits: scales and what a quantizer leaves alone are not in a bare number. Raises
    UsageError for both at once, or a format that is none.
    """
    if size is not None and parameters is not None:
        raise UsageError("--weights and --parameters say the same thing", hint="drop one of them")
    if parameters is None and dtype is not None:
        raise UsageError("--weights-dtype needs --parameters", hint="for example --parameters 7b")
    if parameters is not None:
        size = _packed(parameters, dtype or "bf16")
    if size is None:
        return None
    return WeightReport(
        bytes=size,
        parameters=parameters,
        stored_elements=None,
        tensors=None,
        source="stated",
        loaded_bytes=size,
    )


def _packed(parameters: int, dtype: str) -> int:
    try:
        found = cache_dtype(dtype)
    except UsageError:
        raise UsageError(
            f"unknown weights dtype '{dtype}'",
            hint="known: bf16, fp16, fp32, fp8, int8, int4, nvfp4",
            code="weights-dtype",
        ) from None
    return -(-parameters * found.bytes // found.elements)


def account(structure: Structure, request: Request) -> Account:
    """Answer for every context and concurrency; raises UsageError for what makes no sense."""
    tokens, sequences = max(request.contexts), max(request.sequences)
    contexts = tuple(dict.fromkeys(request.contexts))
    concurrencies = tuple(dict.fromkeys(request.sequences))
    arch = architecture_of(structure)
    reports = {n: _report(structure, arch, request, n, sequences) for n in contexts}
    return Account(
        structure=structure,
        report=reports[tokens],
        grid=grid(structure, contexts=contexts, sequences=concurrencies, dtype=request.kv_dtype),
        ladder=ladder(structure, tokens=tokens, sequences=sequences, dtype=request.kv_dtype),
        capacity=tuple(
            Capacity(tokens=n, fit=one) for n, report in reports.items() for one in report.fit
        ),
        in_use=request.in_use,
    )


def _report(
    structure: Structure, arch: Architecture, request: Request, tokens: int, sequences: int
) -> Report:
    """Return the same report that a model of this structure would get."""
    work = Workload(
        context=tokens,
        sequences=sequences,
        kv_dtype=request.kv_dtype,
        deployment=request.deployment,
    )
    kv = calculate(structure, tokens=tokens, sequences=sequences, dtype=request.kv_dtype)
    return Report(
        files=ModelFiles(target=Target(kind="numbers", id="numbers")),
        workload=work,
        architecture=arch,
        weights=request.weights,
        kv=kv,
        fit=_fits(arch, request.weights, kv, work),
        findings=(),
    )


def _fits(
    arch: Architecture, weights: WeightReport | None, kv: KVReport, work: Workload
) -> tuple[FitReport, ...]:
    measure = cache(partial(measured, arch))
    return tuple(
        fit(arch, weights, kv, work, choice, measure=measure) for choice in work.deployment.gpus
    )
