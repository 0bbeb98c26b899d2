"""Write a snapshot so that there is the whole file or none."""

from __future__ import annotations

from pathlib import Path

from hfkv.core.files import ModelFiles
from hfkv.core.snapshots import dumps
from hfkv.errors import UnreadableError
from hfkv.sources.reading import reason
from hfkv.sources.writing import replace_file

__all__ = ["save_snapshot"]


def save_snapshot(files: ModelFiles, path: str | Path) -> None:
    """Write `files` to `path`; an older file there stays until the new one is complete.

    Raises UnreadableError when the disk refuses (full, read-only, no such folder).
    """
    data = dumps(files).encode()
    try:
        replace_file(Path(path), data)
    except OSError as error:
        raise UnreadableError(
            f"cannot write the snapshot: {reason(error)}", where=str(path), code="unwritable"
        ) from None
