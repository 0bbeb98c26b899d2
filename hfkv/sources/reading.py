"""Local files, read with limits; every refusal is a sentence that names the file."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from hfkv.core.headers import Shard, bytes_needed, parse_shard
from hfkv.core.jsontext import parse_object
from hfkv.errors import HfkvError, MalformedError, UnreadableError

__all__ = [
    "MAX_INDEX",
    "MAX_SMALL",
    "read_object",
    "read_or_none",
    "read_shard",
    "read_small",
    "reason",
]

MAX_SMALL = 10_000_000
MAX_INDEX = 250_000_000

_REASONS = {
    errno.ENOENT: "no such file or folder",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EISDIR: "it is a folder",
    errno.ENOTDIR: "a part of the path is not a folder",
    errno.ENOSPC: "no space left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk is read-only",
    errno.ELOOP: "its symbolic links go round in a circle",
    errno.ENAMETOOLONG: "its name is too long",
    errno.EIO: "the disk failed to read or write it",
}


def reason(error: OSError) -> str:
    """Return in a few words why the system refused a file."""
    known = _REASONS.get(error.errno or 0)
    return known or (error.strerror or "the system refused").lower()


def read_object(path: Path, where: str) -> dict[str, Any]:
    """Return the JSON object in a small file; raises UnreadableError or MalformedError."""
    return parse_object(read_small(path, where), where=where)


def read_small(path: Path, where: str, limit: int = MAX_SMALL) -> bytes:
    """Return the bytes of a file of at most `limit` bytes."""
    try:
        with _open(path, where) as file:
            raw = file.read(limit + 1)
    except OSError as error:
        raise UnreadableError(reason(error), where=where) from None
    if len(raw) > limit:
        raise MalformedError(f"more than {limit:,} bytes, too large for what it is", where=where)
    return raw


def read_or_none(path: Path, limit: int = MAX_SMALL) -> bytes | None:
    """Return the bytes of a file that may be absent; whatever cannot be read counts as absent."""
    try:
        return read_small(path, path.name, limit)
    except HfkvError:
        return None


def read_shard(path: Path, where: str, name: str) -> Shard:
    """Return the header of a safetensors file; its data is not read.

    `where` names the file in messages, `name` in the result.
    """
    try:
        with _open(path, where) as file:
            size = os.fstat(file.fileno()).st_size
            first = file.read(bytes_needed(b"", size, where=where))
            first += file.read(bytes_needed(first, size, where=where) - len(first))
    except OSError as error:
        raise UnreadableError(reason(error), where=where) from None
    return parse_shard(first, file_size=size, path=name)


def _open(path: Path, where: str) -> BinaryIO:
    # Looked at before it is opened: opening a named pipe waits for ever.
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise UnreadableError("it is a folder, and a file is needed", where=where)
    if not stat.S_ISREG(mode):
        raise UnreadableError("it is not a regular file", where=where)
    return path.open("rb")
