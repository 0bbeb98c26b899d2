"""docs/python.md and docs/hf.md are true: sessions are run, variables are read."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYTHON = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
HF = (ROOT / "docs" / "hf.md").read_text(encoding="utf-8")


def test_every_session_says_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them in order, as a reader would type them."""
    monkeypatch.chdir(ROOT)
    text = re.sub(r"^```.*$", "", PYTHON, flags=re.MULTILINE)
    session = doctest.DocTestParser().get_doctest(text, {}, "python.md", None, 0)
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(session, out=said.append)
    assert result.failed == 0, "".join(said)
    assert result.attempted >= 15


def test_the_variables_of_hf_are_read() -> None:
    """Each that the table names is in the code that reads the environment."""
    code = (ROOT / "hfkv" / "sources" / "environment.py").read_text(encoding="utf-8")
    named = set(re.findall(r"\b(HF_[A-Z_]+)", HF))
    assert len(named) >= 6
    assert [name for name in sorted(named) if f'"{name}"' not in code] == []
