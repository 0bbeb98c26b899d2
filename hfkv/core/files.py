"""What came from outside, uninterpreted: `ModelFiles` and its parts.

Plain data that round-trips through JSON: it is the fixture unit, the cache unit and what a
snapshot file holds. `to_json`/`from_json` are in `snapshots.py`.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any

from hfkv.core.record import dataclass
from hfkv.errors import MalformedError

__all__ = [
    "HeaderInfo",
    "IndexInfo",
    "ModelFiles",
    "Problem",
    "RepoFile",
    "Target",
    "TensorGroup",
    "check_name",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the files came from. `kind` is hub, folder, file or snapshot."""

    kind: str
    id: str
    revision: str | None = None
    sha: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RepoFile:
    """One file of the repository; `size` in bytes, None when the source did not say."""

    path: str
    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorGroup:
    """Tensors that differ only in the numbers of their names.

    `name` is a template: every purely numeric dot-separated component is `{}`
    (`model.layers.{}.mlp.experts.{}.up_proj.weight`). `count` tensors share `dtype` (as
    spelled in the header) and `shape`; `nbytes` is the size of one of them, from the data
    offsets. `layers` are the sorted distinct values of the first placeholder.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    count: int = 1
    layers: tuple[int, ...] = ()

    @property
    def elements(self) -> int:
        """Return the stored elements of one tensor."""
        total = 1
        for dim in self.shape:
            total *= dim
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderInfo:
    """One weights file whose header was read: sizes in bytes, number of tensors.

    `metadata` is the header's `__metadata__` (string to string), kept only when small.
    """

    path: str
    header_bytes: int
    data_bytes: int
    tensors: int
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexInfo:
    """What `model.safetensors.index.json` claims: total bytes, and tensors by file."""

    path: str
    total_size: int | None
    files: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something odd met while reading that did not stop it; becomes a finding."""

    code: str
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """Everything that was read of one model.

    `files` is the whole listing; `weight_files` names those that make up the model;
    `config` is the parsed config.json (None when there is none), `config_name` what messages
    call it where it is another file; `side` maps file name to parsed JSON for the small files
    beside it; `tensors` are all tensors of the weight files; `headers` says which of them were
    read. `hub` holds the Hub's public metadata
    that stands in for headers that may not be read (gated repos).
    """

    target: Target
    files: tuple[RepoFile, ...] = ()
    weight_files: tuple[str, ...] = ()
    config: dict[str, Any] | None = None
    config_name: str = "config.json"
    side: dict[str, Any] = field(default_factory=dict)
    tensors: tuple[TensorGroup, ...] = ()
    headers: tuple[HeaderInfo, ...] = ()
    index: IndexInfo | None = None
    hub: dict[str, Any] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def with_problems(self, *problems: Problem) -> ModelFiles:
        """Return the same files with more to report."""
        return replace(self, problems=(*self.problems, *problems))

    def with_config(self, config: dict[str, Any] | None) -> ModelFiles:
        """Return the same files with another config; None is no other. Its name is set apart."""
        if config is None:
            return self
        problems = tuple(problem for problem in self.problems if problem.code != "no-config")
        return replace(self, config=config, problems=problems)


def check_name(name: str, *, where: str) -> None:
    """Refuse a file name that could mean another file than one of this repository."""
    parts = name.split("/")
    if (
        not 0 < len(name) <= 1024
        or "" in parts
        or ".." in parts
        or "\\" in name
        or not name.isprintable()
    ):
        raise MalformedError(f"unsafe file name {name[:80]!r}", where=where)
