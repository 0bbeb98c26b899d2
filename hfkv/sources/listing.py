"""The Hub's model info → what hfkv uses of it, every type checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from hfkv.core.files import RepoFile
from hfkv.core.jsontext import parse_object
from hfkv.errors import MalformedError

__all__ = ["Listing", "parse_listing"]

_WHERE = "model info: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A repository at one commit: its present name, its files, and its public metadata.

    `metadata` holds what stands in for files that may not be read: gated, safetensors
    (parameter counts by dtype) and config, as the Hub has them.
    """

    id: str
    sha: str
    files: tuple[RepoFile, ...]
    metadata: dict[str, Any]


def parse_listing(raw: bytes) -> Listing:
    """Return the listing in an answer to `/api/models/{id}/revision/{rev}?blobs=true`.

    Raises MalformedError.
    """
    info = parse_object(raw, where="model info")
    name = _string(info, "id", _WHERE)
    sha = _string(info, "sha", _WHERE)
    if not re.fullmatch(r"[0-9a-f]{40}", sha):
        raise MalformedError(f"not a commit: {sha[:50]!r}", where=f"{_WHERE}sha")
    siblings = info.get("siblings")
    if not isinstance(siblings, list):
        raise MalformedError("expected a list", where=f"{_WHERE}siblings")
    return Listing(
        id=name,
        sha=sha,
        files=tuple(_file(item, f"{_WHERE}siblings[{i}]") for i, item in enumerate(siblings)),
        metadata={key: info[key] for key in ("gated", "safetensors", "config") if info.get(key)},
    )


def _file(item: Any, where: str) -> RepoFile:
    if not isinstance(item, dict):
        raise MalformedError(f"expected an object, got {item!r:.40}", where=where)
    lfs = item.get("lfs")
    sha256 = lfs.get("sha256") if isinstance(lfs, dict) else None
    size = item.get("size")
    if size is not None and (type(size) is not int or size < 0):
        raise MalformedError(f"expected a size, got {size!r:.40}", where=f"{where}.size")
    return RepoFile(
        path=_string(item, "rfilename", f"{where}."),
        size=size,
        sha256=sha256 if isinstance(sha256, str) else None,
    )


def _string(table: dict[str, Any], key: str, at: str) -> str:
    value = table.get(key)
    if not isinstance(value, str):
        raise MalformedError(f"expected a string, got {value!r:.40}", where=at + key)
    return value
