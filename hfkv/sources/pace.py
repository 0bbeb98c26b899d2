"""When a server that limits the rate of requests may be asked again."""

from __future__ import annotations

import threading
import time

__all__ = ["Pace"]


class Pace:
    """What servers asked of one client, remembered for all its threads.

    A limit is known by a key (the Hub counts its API apart from its files), so that one
    that is reached does not stop requests that are counted elsewhere.
    """

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._lock = threading.Lock()

    def pause(self, key: str, seconds: float) -> None:
        """Ask nothing of `key` for so many seconds; the longest wish counts."""
        until = time.monotonic() + seconds
        with self._lock:
            self._until[key] = max(until, self._until.get(key, 0.0))

    def left(self, key: str) -> float:
        """Return the seconds until `key` may be asked, 0 when it may be now."""
        with self._lock:
            return max(0.0, self._until.get(key, 0.0) - time.monotonic())
