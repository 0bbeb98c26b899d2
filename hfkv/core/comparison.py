"""Several models under one workload: rows, their order, and which figure is the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hfkv.core.files import ModelFiles
from hfkv.core.record import dataclass
from hfkv.core.report import Report, analyze
from hfkv.core.workload import Workload
from hfkv.errors import HfkvError, UsageError

__all__ = ["FIGURES", "SORTS", "Comparison", "Figure", "Row", "compare_models"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One model: its report, or the failure that stands in its place."""

    id: str
    report: Report | None = None
    error: HfkvError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure that models are compared by; `of` takes a report and the place of a GPU."""

    of: Callable[[Report, int], int | None]
    more_is_better: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Rows in the order they are told in; every report is of the same workload."""

    workload: Workload
    rows: tuple[Row, ...]

    def wins(self, report: Report, name: str, gpu: int = 0) -> bool:
        """Return whether a report has the best value of a figure in which the models differ."""
        figure = FIGURES[name]
        found = {
            value
            for row in self.rows
            if row.report is not None and (value := figure.of(row.report, gpu)) is not None
        }
        best = max if figure.more_is_better else min
        return len(found) > 1 and figure.of(report, gpu) == best(found)


def _parameters(report: Report, _gpu: int) -> int | None:
    weights = report.weights
    return weights.parameters if weights is not None and weights.complete else None


def _weights(report: Report, _gpu: int) -> int | None:
    weights = report.resident
    return weights.loaded_bytes if weights is not None and weights.complete else None


def _per_token(report: Report, _gpu: int) -> int | None:
    return report.kv.bytes_per_token if report.kv else None


def _cache(report: Report, _gpu: int) -> int | None:
    return report.kv.bytes if report.kv else None


def _sequences(report: Report, gpu: int) -> int | None:
    return report.fit[gpu].max_sequences if report.fit else None


def _longest(report: Report, gpu: int) -> int | None:
    return report.fit[gpu].max_context if report.fit else report.architecture.max_context


FIGURES: dict[str, Figure] = {
    "parameters": Figure(of=_parameters, more_is_better=True),
    "weights": Figure(of=_weights),
    "kv-per-token": Figure(of=_per_token),
    "kv": Figure(of=_cache),
    "sequences": Figure(of=_sequences, more_is_better=True),
    "context": Figure(of=_longest, more_is_better=True),
}
SORTS = ("name", *FIGURES)


def compare_models(
    targets: Sequence[str],
    outcomes: Sequence[ModelFiles | HfkvError],
    workload: Workload,
    *,
    sort: str | None = None,
) -> Comparison:
    """Return a row for each target, from its files or from the failure to read them.

    Rows are as given, or sorted by a figure of the first GPU, its best value first; what has
    no such figure comes after those that have, and what could not be read last. Raises
    UsageError for a `sort` that is none of SORTS.
    """
    if sort is not None and sort not in SORTS:
        raise UsageError(f"nothing is sorted by '{sort}'", hint="known: " + ", ".join(SORTS))
    rows = [_row(*pair, workload) for pair in zip(targets, outcomes, strict=True)]
    return Comparison(workload=workload, rows=tuple(sorted(rows, key=_key(sort)) if sort else rows))


def _row(target: str, found: ModelFiles | HfkvError, workload: Workload) -> Row:
    if isinstance(found, HfkvError):
        return Row(id=target, error=found)
    try:
        return Row(id=found.target.id, report=analyze(found, workload))
    except HfkvError as error:
        return Row(id=found.target.id, error=error)


def _key(sort: str) -> Callable[[Row], tuple[bool, bool, int, str]]:
    def key(row: Row) -> tuple[bool, bool, int, str]:
        name = row.id.lower()
        if row.report is None:
            return True, True, 0, name
        if sort == "name":
            return False, False, 0, name
        value = FIGURES[sort].of(row.report, 0)
        sign = -1 if FIGURES[sort].more_is_better else 1
        return False, value is None, sign * (value or 0), name

    return key
