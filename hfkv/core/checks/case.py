"""What is checked, and how a check ends."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import NamedTuple

from hfkv.core.files import ModelFiles
from hfkv.core.readings import Finding
from hfkv.core.record import dataclass
from hfkv.core.report import Report
from hfkv.errors import HfkvError

__all__ = [
    "Case",
    "Check",
    "Outcome",
    "Read",
    "Status",
    "Surroundings",
    "Verdicts",
    "needed_files",
    "of_finding",
]

# What engines fetch beside the weights; other formats of the weights stay where they are.
_SMALL_FILES = (".json", ".txt", ".model", ".jinja", ".py", ".tiktoken", ".spm")


class Status(StrEnum):
    """How a check ended."""

    PASS = "pass"  # noqa: S105  no password
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is known around the model; None where it is not known.

    `license` is the identifier as the Hub or the model card has it; sizes are bytes, of what
    `needed_files` names; `cache_path` is where they would be downloaded to.
    """

    license: str | None = None
    chat_template: bool | None = None
    cached_bytes: int | None = None
    free_bytes: int | None = None
    cache_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is checked: a report with what is around it, or the failure to get that far."""

    files: ModelFiles | None
    report: Report | None
    surroundings: Surroundings
    error: HfkvError | None = None
    allowed_licenses: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """How one check ended: a sentence, what to do, and sizes in bytes by what they are."""

    status: Status
    message: str
    hint: str | None = None
    sizes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check that was run. `sizes` are bytes by what they are, to be told after the message."""

    id: str
    status: Status
    message: str
    hint: str | None = None
    sizes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A case in which everything could be read."""

    files: ModelFiles
    report: Report
    around: Surroundings
    allowed: tuple[str, ...]

    @property
    def on_disk(self) -> bool:
        """Return whether the model is on this machine as files of its own."""
        return self.files.target.kind in ("folder", "file")

    def finding(self, *codes: str) -> Finding | None:
        """Return the first finding with one of the codes."""
        return next((one for one in self.report.findings if one.code in codes), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """Every check of one target as it was written, and how bad it may be."""

    target: str
    case: Case
    checks: tuple[Check, ...]
    fail_on: Status = Status.FAIL

    @property
    def failed(self) -> tuple[Check, ...]:
        """Return the checks that keep it from passing."""
        bad = {Status.FAIL, self.fail_on}
        return tuple(check for check in self.checks if check.status in bad)

    @property
    def passed(self) -> bool:
        """Return whether nothing keeps it from passing."""
        return not self.failed

    @property
    def name(self) -> str:
        """Return the model as it calls itself, else as it was written."""
        return self.case.files.target.id if self.case.files is not None else self.target


def of_finding(finding: Finding, status: Status) -> Outcome:
    """Return an outcome in the words of a finding."""
    return Outcome(status, finding.message, finding.hint)


def needed_files(files: ModelFiles) -> tuple[tuple[str, int | None, str | None], ...]:
    """Return path, bytes and sha256 of what an engine downloads: weights and small files."""
    weights = set(files.weight_files)
    return tuple(
        (file.path, file.size, file.sha256)
        for file in files.files
        if file.path in weights or file.path.endswith(_SMALL_FILES)
    )
