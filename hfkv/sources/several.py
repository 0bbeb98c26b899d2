"""Read several models side by side; one that fails does not keep the others from being read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, as_completed

from hfkv.core.files import ModelFiles
from hfkv.errors import HfkvError
from hfkv.sources.pool import Pool

__all__ = ["load_several"]

_AT_ONCE = 6  # each of them asks for up to 32 files at once by itself


def load_several(
    targets: Sequence[str],
    load: Callable[[str], ModelFiles],
    *,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[ModelFiles | HfkvError]:
    """Return what was read of each target, in order, or the failure to read it."""
    pool = Pool(_AT_ONCE)
    try:
        asked = [pool.submit(load, target) for target in targets]
        for done, _ in enumerate(as_completed(asked), start=1):
            if progress is not None:
                progress(done, len(asked), "models")
        return [_outcome(future) for future in asked]
    finally:
        pool.close()


def _outcome(future: Future[ModelFiles]) -> ModelFiles | HfkvError:
    try:
        return future.result()
    except HfkvError as error:
        return error
