"""Whole command lines over the fixtures: stdout, stderr and exit code, as last looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from update_golden import GOLDEN, LABEL, answer

CASES = sorted(GOLDEN.glob("*.json"))


def test_there_are_golden_files() -> None:
    """An empty folder would make the test below pass for nothing."""
    assert len(CASES) >= 10


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_output_is_as_it_was_last_looked_at(path: Path) -> None:
    """A change of output is a change of these files; a new case is a file with `args` in it."""
    case = json.loads(path.read_text(encoding="utf-8"))
    assert case["kind"] == LABEL
    told = answer(case["args"], case["columns"])
    for part in ("exit", "stderr", "stdout"):
        assert told[part] == case[part], part
