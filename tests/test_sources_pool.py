"""The worker threads: results, failures, and an end that waits for nobody."""

from __future__ import annotations

import threading
import time
from concurrent.futures import CancelledError

import pytest

from hfkv.errors import UnreadableError
from hfkv.sources.pool import Pool, Share


def fail() -> None:
    """Fail as a job does."""
    raise UnreadableError("no")


def test_results_and_failures() -> None:
    """A job's result or exception is what its future gives."""
    pool = Pool(2)
    futures = [pool.submit(pow, base, exp=2) for base in range(20)]
    assert [future.result(5) for future in futures] == [base**2 for base in range(20)]
    with pytest.raises(UnreadableError):
        pool.submit(fail).result(5)
    assert pool.submit(pow, 2, 3).result(5) == 8
    pool.close()


def test_no_more_threads_than_asked_for() -> None:
    """Two workers never run three jobs at once."""
    running: list[int] = []
    most: list[int] = []
    lock = threading.Lock()

    def job() -> None:
        with lock:
            running.append(1)
            most.append(len(running))
        time.sleep(0.01)
        with lock:
            running.pop()

    pool = Pool(2)
    for future in [pool.submit(job) for _ in range(10)]:
        future.result(5)
    pool.close()
    assert max(most) == 2


def test_closing_drops_what_has_not_begun() -> None:
    """Queued jobs are cancelled, a running one is left alone, nothing is waited for."""
    release = threading.Event()
    pool = Pool(1)
    running = pool.submit(release.wait, 5)
    time.sleep(0.05)
    queued = [pool.submit(pow, 2, 2) for _ in range(5)]
    withdrawn = pool.submit(pow, 2, 2)
    withdrawn.cancel()
    started = time.monotonic()
    pool.close()
    assert time.monotonic() - started < 1
    for future in queued:
        with pytest.raises(CancelledError):
            future.result(1)
    release.set()
    assert running.result(5) is True


def test_withdrawn_job_is_not_run() -> None:
    """A job that was cancelled while it waited is skipped."""
    release = threading.Event()
    done: list[int] = []
    pool = Pool(1)
    pool.submit(release.wait, 5)
    withdrawn = pool.submit(done.append, 1)
    withdrawn.cancel()
    release.set()
    pool.submit(done.append, 2).result(5)
    pool.close()
    assert done == [2]


def test_threads_end_when_the_pool_is_closed() -> None:
    """An idle pool leaves no thread behind."""
    before = threading.active_count()
    pool = Pool(3)
    for future in [pool.submit(time.sleep, 0.01) for _ in range(3)]:
        future.result(5)
    pool.close()
    pool.close()
    end = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_what_nobody_waits_for_makes_room() -> None:
    """A job that never ends does not keep others from being done; one in the queue is dropped."""
    pool, gate = Pool(1), threading.Event()
    ran: list[str] = []
    share = Share(pool)
    stuck = share.submit(gate.wait)
    other = pool.submit(int, "6")
    queued = share.submit(ran.append, "queued")
    while not stuck.running():
        time.sleep(0.001)
    share.close()
    assert queued.cancelled()
    assert other.result(timeout=5) == 6
    assert pool.submit(int, "7").result(timeout=5) == 7
    gate.set()
    assert stuck.result(timeout=5)
    assert [pool.submit(int, "8").result(timeout=5), ran] == [8, []]
