"""JSON from outside: limits, places, and a collector that always goes on again."""

from __future__ import annotations

import gc
import threading

import pytest

from hfkv.core.jsontext import depth, gc_paused, parse, parse_object
from hfkv.errors import MalformedError


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 0), ("[[", 0), ([], 1), ({}, 1), ([{}], 2), ({"a": [[1]], "b": 2}, 3), (((1,),), 2)],
)
def test_depth(value: object, expected: int) -> None:
    """Containers count, what they hold does not."""
    assert depth(value) == expected


def test_what_python_writes_is_read() -> None:
    """Infinity occurs in published configs, and some editors write a byte order mark."""
    assert parse(b'{"limit": [0.0, Infinity]}', where="x") == {"limit": [0.0, float("inf")]}
    assert parse(b"\xef\xbb\xbf[1]", where="x") == [1]


def test_nesting_limit() -> None:
    """A hundred levels are read, one more is refused."""
    assert depth(parse(b"[" * 100 + b"]" * 100, where="x")) == 100
    with pytest.raises(MalformedError) as caught:
        parse(b"[" * 101 + b"]" * 101, where="x")
    assert caught.value.message == "x: its JSON is nested too deeply"
    assert depth(parse(b"[" * 101 + b"]" * 101, where="x", max_depth=101)) == 101


def test_only_objects() -> None:
    """Where an object is needed, nothing else will do."""
    with pytest.raises(MalformedError) as caught:
        parse_object(b"3", where="x")
    assert caught.value.message == "x: expected a JSON object at the top, got a number"


def test_collector_goes_on_after_nested_pauses() -> None:
    """An inner pause does not end the outer one, nor outlast it."""
    assert gc.isenabled()
    with gc_paused():
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collector_that_was_off_stays_off() -> None:
    """Whoever switched it off for good keeps it off."""
    gc.disable()
    try:
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_collector_goes_on_after_pauses_that_overlap() -> None:
    """Two threads pause it, the first to begin ends first: it goes on with the last."""
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with gc_paused():
            inside.set()
            leave.wait(5)

    with gc_paused():
        thread = threading.Thread(target=hold)
        thread.start()
        inside.wait(5)
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()
