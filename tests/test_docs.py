"""The documents are true: generated parts are current, links lead somewhere, commands exist."""

from __future__ import annotations

import re

import pytest
from update_docs import BLOCKS, ROOT, generated

from hfkv.cli.group import COMMANDS

DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", BLOCKS)
def test_generated_parts_are_current(name: str) -> None:
    """Running tests/update_docs.py would change nothing."""
    assert generated(name) == (ROOT / name).read_text(encoding="utf-8")


PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in DOCS.glob("*.md"))]


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    """Every relative link names a file of the repository."""
    path = ROOT / name
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


def test_the_readme_leads_to_every_page() -> None:
    """A page that nothing links to is not read."""
    for path in DOCS.glob("*.md"):
        assert f"](docs/{path.name})" in README, path.name


def test_the_picture_is_small() -> None:
    """The README's picture is a PNG of at most 200 kB."""
    picture = (DOCS / "report.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) <= 200_000


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
