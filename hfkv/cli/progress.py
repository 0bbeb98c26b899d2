"""One line on a terminal's stderr that says how far the reading has come."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self

from hfkv.render.units import clean, integer

__all__ = ["Progress"]

_FIRST = 0.4  # seconds: what is over sooner needs no progress
_EVERY = 0.08


class Progress:
    """Called with (done, total, what), from any thread; leaves no trace when it ends."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _FIRST
        self._shown = False
        self._lock = threading.Lock()

    def __call__(self, done: int, total: int, what: str) -> None:
        """Show how far it has come, if it is time to."""
        with self._lock:
            now = time.monotonic()
            if now < self._next:
                return
            self._next = now + _EVERY
            self._shown = True
            from shutil import get_terminal_size  # noqa: PLC0415  what is quick shows nothing

            columns = get_terminal_size((80, 24)).columns
            line = f"{integer(done)} of {integer(total)}  {clean(what, 200)}"
            sys.stderr.write(f"\r\x1b[2K{line[: columns - 1]}")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._next = float("inf")
            if self._shown:
                sys.stderr.write("\r\x1b[2K")
                sys.stderr.flush()
