"""Read several models side by side; one that fails does not keep the others from being read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import islice
from os import PathLike
from typing import TypeVar

from hfkv.core.files import ModelFiles
from hfkv.errors import HfkvError
from hfkv.sources import load
from hfkv.sources.pool import Pool
from hfkv.sources.shared import Shared
from hfkv.sources.targets import listed

__all__ = ["load_many", "load_several", "side_by_side"]

_AT_ONCE = 8  # models; they share the threads that ask
_T = TypeVar("_T")


def load_many(
    targets: Iterable[str | PathLike[str]] | str | PathLike[str],
    *,
    token: str | None = None,
    offline: bool = False,
    timeout: float = 60.0,
    at_once: int = _AT_ONCE,
    patient: bool = False,
) -> Iterator[tuple[str, ModelFiles | HfkvError]]:
    """Yield each target with what was read of it, or the failure to, in the order of arrival.

    Targets are taken as they are needed: there may be any number of them, or one. All share one
    pool of connections and the rate limits that are met; with `patient` these are waited
    out, else a model that would have to wait for long is a failure.
    """

    def one(target: str | PathLike[str]) -> ModelFiles | HfkvError:
        try:
            return load(target, token=token, offline=offline, timeout=timeout, shared=shared)
        except HfkvError as error:
            return error

    with Shared(patient=patient) as shared:
        for _, target, outcome in side_by_side(listed(targets), one, at_once=at_once):
            yield str(target), outcome


def load_several(
    targets: Sequence[str],
    load: Callable[[str], ModelFiles],
    *,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[ModelFiles | HfkvError]:
    """Return what was read of each target, in order, or the failure to read it."""

    def one(target: str) -> ModelFiles | HfkvError:
        try:
            return load(target)
        except HfkvError as error:
            return error

    found: dict[int, ModelFiles | HfkvError] = {}
    for place, _, outcome in side_by_side(targets, one):
        found[place] = outcome
        if progress is not None:
            progress(len(found), len(targets), "models")
    return [found[place] for place in range(len(targets))]


def side_by_side(
    targets: Iterable[str], work: Callable[[str], _T], *, at_once: int = _AT_ONCE
) -> Iterator[tuple[int, str, _T]]:
    """Yield place, target and result of `work`, as they are done.

    No more targets are taken than are worked on at once; what `work` raises ends it all.
    """
    waiting = iter(enumerate(targets))
    pool = Pool(at_once)
    asked: dict[Future[_T], tuple[int, str]] = {}
    try:
        while True:
            for place, target in islice(waiting, at_once - len(asked)):
                asked[pool.submit(work, target)] = (place, target)
            if not asked:
                return
            for future in wait(asked, return_when=FIRST_COMPLETED).done:
                yield *asked.pop(future), future.result()
    finally:
        pool.close()
