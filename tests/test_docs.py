"""The documents are true: generated parts are current, links lead somewhere, commands exist."""

from __future__ import annotations

import re

import pytest
from update_docs import BLOCKS, ROOT, generated

from hfkv.cli.group import COMMANDS

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", BLOCKS)
def test_generated_parts_are_current(name: str) -> None:
    """Running tests/update_docs.py would change nothing."""
    assert generated(name) == (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(name: str) -> None:
    """Every relative link names a file of the repository."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), target


def test_every_command_is_in_the_readme() -> None:
    """A command that the README does not show does not exist for a newcomer."""
    for name in COMMANDS:
        assert f"hfkv {name}" in README, name


def test_the_python_example_is_true() -> None:
    """The README's Python lines give the figure they state."""
    import hfkv  # noqa: PLC0415 - as a reader would

    path = ROOT / "fixtures" / "models" / "google--gemma-3-27b-it.hfkv.json"
    report = hfkv.inspect(str(path), gpu=["h100"], context=32768)
    assert report.kv is not None
    assert report.kv.bytes == 3_120_562_176
    assert report.fit[0].max_sequences > 0
