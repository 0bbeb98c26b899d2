"""Write a file so that there is the whole of it or none."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["replace_file"]


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` in the place of `path` in one step; raises OSError, and leaves nothing then.

    The file gets the permissions any new file would get, which a temporary one has not.
    """
    mask = os.umask(0)
    os.umask(mask)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.chmod(0o666 & ~mask)
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
