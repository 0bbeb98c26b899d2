"""The Hub's model info → what hfkv uses of it, every type checked."""

from __future__ import annotations

import re
from typing import Any

from hfkv.core.files import RepoFile
from hfkv.core.jsontext import parse_object
from hfkv.core.record import dataclass
from hfkv.errors import MalformedError

__all__ = ["REPOSITORY", "Listing", "parse_listing"]

_WHERE = "model info: "
REPOSITORY = r"(?!\.)[A-Za-z0-9_.-]{1,96}(/(?!\.)[A-Za-z0-9_.-]{1,96})?"  # no path out of here


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A repository at one commit: its present name, its files, and its public metadata.

    `metadata` holds what stands in for files that may not be read: gated, safetensors
    (parameter counts by dtype) and config, as the Hub has them; and, where the Hub tells,
    `license` and whether there is a `chat_template`.
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
    if not re.fullmatch(REPOSITORY, name):
        raise MalformedError("not the name of a repository", where=f"{_WHERE}id")
    sha = _string(info, "sha", _WHERE)
    if not re.fullmatch(r"[0-9a-f]{40}", sha):
        raise MalformedError(f"not a commit: {sha[:50]!r}", where=f"{_WHERE}sha")
    siblings = info.get("siblings")
    if not isinstance(siblings, list):
        raise MalformedError("expected a list", where=f"{_WHERE}siblings")
    metadata = {key: info[key] for key in ("gated", "safetensors", "config") if info.get(key)}
    return Listing(
        id=name,
        sha=sha,
        files=tuple(_file(item, f"{_WHERE}siblings[{i}]") for i, item in enumerate(siblings)),
        metadata=metadata | _license(info) | _chat_template(info),
    )


def _license(info: dict[str, Any]) -> dict[str, str]:
    """Return the license of the model card, else that of the tags; odd types are none."""
    card, tags = info.get("cardData"), info.get("tags")
    stated = card.get("license") if isinstance(card, dict) else None
    if isinstance(stated, list) and len(stated) == 1:
        stated = stated[0]
    if not isinstance(stated, str) and isinstance(tags, list):
        tagged = (tag for tag in tags if isinstance(tag, str) and tag.startswith("license:"))
        stated = next(tagged, "").removeprefix("license:")
    return {"license": stated} if isinstance(stated, str) and stated else {}


def _chat_template(info: dict[str, Any]) -> dict[str, bool]:
    """Return whether the Hub found a chat template, where it looked at the tokenizer."""
    config = info.get("config")
    tokenizer = config.get("tokenizer_config") if isinstance(config, dict) else None
    if not isinstance(config, dict) or not isinstance(tokenizer, dict):
        return {}
    found = tokenizer.get("chat_template") or config.get("chat_template_jinja")
    return {"chat_template": bool(found)}


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
