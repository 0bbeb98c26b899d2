"""JSON text from outside, read with limits: every failure is a MalformedError with a place."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hfkv.core.counts import kind_of
from hfkv.errors import MalformedError

__all__ = ["MAX_DEPTH", "depth", "gc_paused", "parse", "parse_object"]

# Real configs nest 7 deep at most; this keeps every recursive reader after us safe.
MAX_DEPTH = 100

_LOCK = threading.Lock()
_PAUSES: list[str] = []


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the garbage collector: it doubles the time that many small objects take to make.

    Threads may pause it at the same time; it goes on when the last of them is done.
    """
    with _LOCK:
        if not _PAUSES and gc.isenabled():
            _PAUSES.append("was on")
        _PAUSES.append("held")
        gc.disable()
    try:
        yield
    finally:
        with _LOCK:
            _PAUSES.pop()
            if _PAUSES == ["was on"]:
                _PAUSES.clear()
                gc.enable()


def depth(value: Any) -> int:
    """Return how many containers are nested at the deepest point, without recursion."""
    level, deepest = [value], 0
    while level := [item for item in level if isinstance(item, (dict, list, tuple))]:
        deepest += 1
        level = [
            child for item in level for child in (item.values() if isinstance(item, dict) else item)
        ]
    return deepest


def parse(raw: bytes, *, where: str, max_depth: int = MAX_DEPTH) -> Any:
    """Return the value of a JSON text.

    Accepts what Python's json accepts (`Infinity` occurs in real configs) and a byte order
    mark. Raises MalformedError for anything else, and for nesting beyond `max_depth`.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedError(f"not UTF-8 text (byte {error.start})", where=where) from None
    try:
        with gc_paused():
            value = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise MalformedError(f"not valid JSON ({error.msg}, {place})", where=where) from None
    except ValueError:
        raise MalformedError("a number in it has thousands of digits", where=where) from None
    except RecursionError:
        raise MalformedError("its JSON is nested too deeply", where=where) from None
    if depth(value) > max_depth:
        raise MalformedError("its JSON is nested too deeply", where=where)
    return value


def parse_object(raw: bytes, *, where: str) -> dict[str, Any]:
    """Return the JSON object in a text; raises MalformedError when it is something else."""
    value = parse(raw, where=where)
    if not isinstance(value, dict):
        kind = kind_of(value)
        raise MalformedError(f"expected a JSON object at the top, got {kind}", where=where)
    return value
