"""Checks as a document, as Markdown, as CSV and as annotations of a CI run."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hfkv import __version__
from hfkv.core.checks import Check, Status, Verdicts
from hfkv.core.counts import counted
from hfkv.render.json import inspect_document
from hfkv.render.rows import code, escape, markdown_table, write_csv
from hfkv.render.units import clean, size

__all__ = [
    "check_csv",
    "check_document",
    "check_markdown",
    "github_annotations",
    "sentence",
    "summary",
]

_SIGNS = {Status.PASS: "✅", Status.WARN: "⚠️", Status.FAIL: "❌", Status.SKIPPED: "➖"}
_WORDS = {Status.FAIL: "failed", Status.WARN: "warned", Status.PASS: "passed"}


def sentence(check: Check) -> str:
    """Return what a check found, with its sizes."""
    sizes = ", ".join(f"{size(nbytes)} {what}" for what, nbytes in check.sizes.items())
    return f"{check.message}: {sizes}" if sizes else check.message


def summary(answer: Verdicts) -> str:
    """Return the outcome in one line: `13 checks: 1 failed, 2 warned, 9 passed, 1 skipped`."""
    found = Counter(check.status for check in answer.checks)
    parts = [f"{found[status]} {word}" for status, word in _WORDS.items() if found[status]]
    if skipped := found[Status.SKIPPED]:
        parts.append(f"{skipped} skipped")
    return f"{counted(len(answer.checks), 'check')}: {', '.join(parts)}"


def check_document(answer: Verdicts) -> dict[str, Any]:
    """Return the `hfkv.check/1` document; `report` is null for what could not be read."""
    report = answer.case.report
    return {
        "schema": "hfkv.check/1",
        "hfkv_version": __version__,
        "id": answer.name,
        "passed": answer.passed,
        "checks": [
            {
                "id": check.id,
                "status": str(check.status),
                "message": sentence(check),
                "hint": check.hint,
                "bytes": check.sizes,
            }
            for check in answer.checks
        ],
        "report": inspect_document(report) if report is not None else None,
    }


def check_markdown(answer: Verdicts) -> str:
    """Return the checks as a table, for the summary of a CI run."""
    rows = [
        (
            _SIGNS[check.status],
            code(check.id),
            escape(sentence(check)) + (f" *{escape(check.hint)}*" if check.hint else ""),
        )
        for check in answer.checks
    ]
    outcome = "passed" if answer.passed else "not passed"
    intro = f"### {code(answer.name)}: {outcome}\n\n{summary(answer)}\n\n"
    return intro + markdown_table(("", "check", "what was found"), rows)


def check_csv(answer: Verdicts) -> str:
    """Return one row a check."""
    rows = (
        (answer.name, check.id, str(check.status), sentence(check), check.hint)
        for check in answer.checks
    )
    return write_csv(("target", "check", "status", "message", "hint"), rows)


def github_annotations(answer: Verdicts) -> str:
    """Return the commands with which GitHub Actions marks a run, one a warning or failure.

    Source: docs.github.com, "Workflow commands for GitHub Actions", error and warning.
    """
    lines = []
    for check in answer.checks:
        if check.status in (Status.WARN, Status.FAIL):
            level = "error" if check in answer.failed else "warning"
            hint = f" ({check.hint})" if check.hint else ""
            title = _property(f"hfkv {check.id}: {answer.name}")
            lines.append(f"::{level} title={title}::{_data(sentence(check) + hint)}\n")
    return "".join(lines)


def _data(text: str) -> str:
    return clean(text, 2000).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
