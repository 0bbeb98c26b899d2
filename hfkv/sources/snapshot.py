"""Write a snapshot so that there is the whole file or none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hfkv.core.files import ModelFiles
from hfkv.core.snapshots import dumps
from hfkv.errors import UnreadableError
from hfkv.sources.reading import reason

__all__ = ["save_snapshot"]


def save_snapshot(files: ModelFiles, path: str | Path) -> None:
    """Write `files` to `path` atomically; an older file stays until the new one is complete.

    Raises UnreadableError when the disk refuses (full, read-only, no such folder).
    """
    target = Path(path)
    text = dumps(files)
    try:
        _replace(target, text)
    except OSError as error:
        raise UnreadableError(
            f"cannot write the snapshot: {reason(error)}", where=str(path), code="unwritable"
        ) from None


def _replace(target: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp is private to the user; a snapshot is an ordinary file
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
