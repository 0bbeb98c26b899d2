"""All checks in one greppable place, in the order in which they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hfkv.core.checks.case import Case, Check, Outcome, Read, Status
from hfkv.core.checks.content import (
    agreement,
    complete,
    license_stated,
    pinned,
    reachable,
    remote_code,
    safetensors,
    tokenizer,
)
from hfkv.core.checks.running import cached, context, disk, fits, loadable
from hfkv.errors import (
    HfkvError,
    MalformedError,
    UnreadableError,
    UnsupportedError,
    UsageError,
)

__all__ = ["CHECKS", "known_ids", "run_checks"]

CHECKS: dict[str, Callable[[Read], Outcome]] = {
    "reachable": reachable,
    "pinned": pinned,
    "complete": complete,
    "safetensors": safetensors,
    "remote-code": remote_code,
    "license": license_stated,
    "disk": disk,
    "cached": cached,
    "loadable": loadable,
    "fits": fits,
    "context": context,
    "tokenizer": tokenizer,
    "agreement": agreement,
}
# The check that a failure to read belongs to.
_BY_ERROR: tuple[tuple[type[HfkvError], str], ...] = (
    (UnreadableError, "reachable"),
    (MalformedError, "complete"),
    (UnsupportedError, "safetensors"),
)


def known_ids(names: Iterable[str]) -> frozenset[str]:
    """Return the ids of checks; raises UsageError for one that is none."""
    found = frozenset(names)
    for name in sorted(found - CHECKS.keys()):
        raise UsageError(f"there is no check '{name}'", hint="known: " + ", ".join(CHECKS))
    return found


def run_checks(case: Case, *, skip: frozenset[str] = frozenset()) -> tuple[Check, ...]:
    """Return every check in its order; those in `skip` are not run."""
    return tuple(
        _told(name, Outcome(Status.SKIPPED, "as asked") if name in skip else _run(name, case))
        for name in CHECKS
    )


def _run(name: str, case: Case) -> Outcome:
    if case.files is not None and case.report is not None:
        read = Read(
            files=case.files,
            report=case.report,
            around=case.surroundings,
            allowed=case.allowed_licenses,
        )
        return CHECKS[name](read)
    error = case.error or HfkvError("it was not read")
    failed = next((one for kind, one in _BY_ERROR if isinstance(error, kind)), "reachable")
    if name == failed:
        return Outcome(Status.FAIL, error.message, error.hint)
    if name == "reachable":
        return Outcome(Status.PASS, "it was read")
    return Outcome(Status.SKIPPED, f"not looked at: {failed} failed")


def _told(name: str, outcome: Outcome) -> Check:
    return Check(
        id=name,
        status=outcome.status,
        message=outcome.message,
        hint=outcome.hint,
        sizes=dict(outcome.sizes),
    )
