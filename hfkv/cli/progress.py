"""One line on a terminal's stderr that says how far the reading has come, and how long it takes."""

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
_TICK = 0.5  # a line that stands still looks dead: seconds are counted while nothing comes


class Progress:
    """Called with (done, total, what), from any thread; leaves no trace when it ends."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._next = self._started + _FIRST
        self._told = "reading"
        self._shown = False
        self._over = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, done: int, total: int, what: str) -> None:
        """Show how far it has come, if it is time to."""
        with self._lock:
            self._told = f"{integer(done)} of {integer(total)}  {clean(what, 200)}"
            self._show()

    def _show(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY
        self._shown = True
        from shutil import get_terminal_size  # noqa: PLC0415  what is quick shows nothing

        columns = get_terminal_size((80, 24)).columns
        seconds = int(now - self._started)
        line = f"{self._told}, {seconds} s" if seconds else self._told
        sys.stderr.write(f"\r\x1b[2K{line[: columns - 1]}")
        sys.stderr.flush()

    def _keep_showing(self) -> None:
        while not self._over.wait(_TICK):
            with self._lock:
                self._show()

    def __enter__(self) -> Self:
        threading.Thread(target=self._keep_showing, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        with self._lock:
            self._next = float("inf")
            if self._shown:
                sys.stderr.write("\r\x1b[2K")
                sys.stderr.flush()
