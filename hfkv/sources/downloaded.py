"""Models that huggingface_hub has downloaded before, read from its cache without a network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from hfkv.core.files import ModelFiles, Problem, Target
from hfkv.errors import UnreadableError
from hfkv.sources.environment import cache_folder
from hfkv.sources.local import load_folder, load_path
from hfkv.sources.reading import read_or_none
from hfkv.sources.targets import HubTarget

__all__ = ["load_downloaded"]


def load_downloaded(wanted: HubTarget, *, config: dict[str, Any] | None = None) -> ModelFiles:
    """Return a repository from the cache; raises UnreadableError when it is not there.

    Layout: `models--org--name/refs/REV` holds a commit, `snapshots/COMMIT/` its files.
    """
    try:
        return _load_downloaded(wanted, config)
    except (OSError, RuntimeError) as error:  # an unreadable folder, a home that is nobody's
        raise UnreadableError(
            f"offline, and the cache cannot be read: {getattr(error, 'strerror', None) or error}",
            hint="see HF_HOME and HF_HUB_CACHE, and who may read there",
            code="offline",
        ) from None


def _load_downloaded(wanted: HubTarget, config: dict[str, Any] | None) -> ModelFiles:
    cache = cache_folder()
    repo = cache / f"models--{wanted.repo.replace('/', '--')}"
    sha = _commit(repo, wanted.revision)
    folder = repo / "snapshots" / sha
    path = folder if wanted.file is None else folder / wanted.file
    if not path.exists():
        raise UnreadableError(
            f"offline, and {_name(wanted)} is not in the cache at {cache}",
            hint="inspecting it once online is enough to keep what is needed;"
            f" `hf download {wanted.repo}` fetches all of it",
            code="offline",
        )
    target = Target(kind="hub", id=_name(wanted), revision=wanted.revision, sha=sha)
    if wanted.file is not None:
        return replace(load_path(path, config=config), target=target)
    files = load_folder(folder, target, config=config)
    if {"no-weights", "missing-shard"}.isdisjoint(problem.code for problem in files.problems):
        return files
    return files.with_problems(
        Problem(
            code="offline-partial",
            message=f"offline: only what is in the cache at {cache} was read",
            hint="leave offline mode to read the rest; headers are small",
        )
    )


def _commit(repo: Path, revision: str) -> str:
    # a commit needs no reference
    commit = (read_or_none(repo / "refs" / revision) or b"").decode("ascii", "replace").strip()
    return commit if commit.isalnum() else revision


def _name(wanted: HubTarget) -> str:
    return wanted.repo if wanted.file is None else f"{wanted.repo}:{wanted.file}"
