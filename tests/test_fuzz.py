"""Any bytes from outside give a result or a sentence: the corpus, and what hypothesis makes of it.

`python benchmarks/fuzz_inputs.py TARGET` goes on with atheris; what it finds is kept in the corpus.
"""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path

import pytest
from fuzz_targets import TARGETS, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CORPUS = Path(__file__).parent.parent / "fixtures" / "corpus"
FILES = sorted(path for path in CORPUS.glob("*/*") if path.is_file())
SEEDS = {
    name: [path.read_bytes() for path in FILES if path.parent.name == name] for name in TARGETS
}


def test_every_target_has_a_corpus() -> None:
    """And every corpus a target."""
    assert {path.parent.name for path in FILES} == set(TARGETS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_corpus(path: Path) -> None:
    """Attacks, real files, and everything that ever failed: answered within two seconds."""
    started = time.process_time()
    run(path.parent.name, path.read_bytes())
    assert time.process_time() - started < 2


@st.composite
def damaged(draw: st.DrawFn, name: str) -> bytes:
    """Return a file of the corpus, cut, spliced and with other bytes in it."""
    raw = draw(st.sampled_from(SEEDS[name]))[:20_000]
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(raw)))
        stop = draw(st.integers(start, min(len(raw), start + 40)))
        raw = raw[:start] + draw(st.binary(max_size=8)) + raw[stop:]
    return raw


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@st.composite
def odd(draw: st.DrawFn, name: str) -> bytes:
    """Return a JSON file of the corpus with any other value in one place."""
    trees = [tree for tree in map(_tree, SEEDS[name]) if isinstance(tree, dict)]
    tree = draw(st.sampled_from(trees)) if trees else {}
    place = tree = json.loads(json.dumps(tree))
    while isinstance(place, dict) and place:
        key = draw(st.sampled_from(sorted(place)))
        if not isinstance(place[key], dict) or draw(st.booleans()):
            place[key] = draw(JSON)
            break
        place = place[key]
    return _written(name, tree)


def _tree(raw: bytes) -> object:
    try:
        return json.loads(raw[8:] if raw[:1] not in b"{[" else raw)
    except (ValueError, RecursionError):
        return None


def _written(name: str, tree: object) -> bytes:
    raw = json.dumps(tree).encode()
    return struct.pack("<Q", len(raw)) + raw if name == "header" else raw


MANY = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("name", TARGETS)
@MANY
@given(data=st.data())
def test_damaged_files(name: str, data: st.DataObject) -> None:
    """Bytes changed anywhere."""
    run(name, data.draw(damaged(name)))


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "entry"])
@MANY
@given(data=st.data())
def test_odd_values(name: str, data: st.DataObject) -> None:
    """Well-formed JSON with a value of any type where another was expected."""
    run(name, data.draw(odd(name)))
