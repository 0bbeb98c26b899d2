"""Exit codes: what each one promises to the script that called hfkv."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from hfkv.errors import HfkvError, MalformedError, UnreadableError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from hfkv.core.report import Report

__all__ = ["Exit", "exit_for_error", "exit_for_report"]


class Exit(IntEnum):
    """The documented codes; a bug has one of its own so that it never reads as an answer."""

    DONE = 0
    FAILED = 1  # it does not fit, or a check failed
    USAGE = 2  # the request, including where to write to
    UNREADABLE = 3
    MALFORMED = 4
    UNSIZED = 5
    BUG = 70
    INTERRUPTED = 130


_BY_ERROR: tuple[tuple[type[HfkvError], Exit], ...] = (
    (UsageError, Exit.USAGE),
    (UnreadableError, Exit.UNREADABLE),
    (MalformedError, Exit.MALFORMED),
    (UnsupportedError, Exit.UNSIZED),
)


def exit_for_error(error: HfkvError) -> Exit:
    """Return the code of an expected failure."""
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), Exit.BUG)


def exit_for_report(report: Report, *, must_fit: bool) -> tuple[Exit, str | None]:
    """Return the code of a finished report, and the sentence that explains it when not 0.

    With `must_fit`, a GPU that may or may not hold the model (its weights are unknown) is
    not one that fits.
    """
    if report.kv is None:
        doubts = report.architecture.doubts
        why = f": {doubts[0]}" if doubts else ""
        return Exit.UNSIZED, f"the cache of {report.files.target.id} cannot be sized{why}"
    if must_fit and not any(fit.fits for fit in report.fit):
        if any(fit.fits is None for fit in report.fit):
            return Exit.FAILED, "whether it fits is not known: the whole weights were not read"
        return Exit.FAILED, "it does not fit on any GPU that was given"
    return Exit.DONE, None
