"""A few worker threads that never keep the program from ending."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, ParamSpec, TypeVar

__all__ = ["Pool", "Share"]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Job = tuple[Future[Any], Callable[[], Any]]


class Pool:
    """Run functions on up to `size` daemon threads.

    concurrent.futures waits for its threads when the interpreter ends, which would make
    Ctrl-C and the deadline wait for the slowest server.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads = 0
        self._abandoned: set[Future[Any]] = set()
        self._lock = threading.Lock()

    def submit(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Return the future result of calling `function`."""
        future: Future[_T] = Future()
        self._jobs.put((future, lambda: function(*args, **kwargs)))
        with self._lock:
            wanted = self._threads < self._size
            self._threads += wanted
        if wanted:
            threading.Thread(target=self._work, daemon=True).start()
        return future

    def abandon(self, future: Future[Any]) -> None:
        """Drop a job that nobody waits for; one that has begun makes room for another thread."""
        with self._lock:
            if future.cancel() or future.done():
                return
            self._abandoned.add(future)
            waiting = not self._jobs.empty()
            self._threads -= not waiting
        if waiting:
            threading.Thread(target=self._work, daemon=True).start()

    def in_time(
        self, left: Callable[[], float], function: Callable[_P, _T], *args: _P.args, **kw: _P.kwargs
    ) -> _T:
        """Return the result of `function`, or raise what `left` raises when no seconds are left.

        A server that sends its answer byte by byte can hold a thread for as long as it likes.
        """
        future = self.submit(function, *args, **kw)
        while not wait([future], timeout=left()).done:
            pass
        return future.result()

    def close(self) -> None:
        """Let idle threads end, and drop what has not begun; nothing is waited for."""
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is not None:
                job[0].cancel()
        for _ in range(self._threads):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, call = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001  handed to whoever asks for the result
                future.set_exception(error)
            with self._lock:
                if future in self._abandoned:
                    self._abandoned.remove(future)
                    return


class Share(Pool):
    """One model's part of a pool: what is still to do for it ends with it.

    A server that never ends an answer keeps the thread that reads it. Others take its place,
    or a few such answers would leave none for the models that come after.
    """

    def __init__(self, pool: Pool) -> None:
        super().__init__(0)
        self._pool = pool
        self._asked: list[Future[Any]] = []

    def submit(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Return the future result of calling `function` in the pool."""
        future = self._pool.submit(function, *args, **kwargs)
        self._asked.append(future)
        return future

    def close(self) -> None:
        """Drop what is not done."""
        running = [future for future in self._asked if not future.cancel()]
        for future in running:
            self._pool.abandon(future)
