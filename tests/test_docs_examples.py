"""What the documents show is what the program says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from update_golden import CONSOLE, DOCS, told_in_docs

SHOWN = [
    (path.name, match[2], match[3])
    for path in DOCS
    for match in CONSOLE.finditer(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("name", "command", "shown"), SHOWN, ids=lambda part: part[:40])
def test_every_output_in_the_documents_is_real(name: str, command: str, shown: str) -> None:
    """Each `$ hfkv …` of a console block is run again; update_golden.py writes them anew."""
    assert told_in_docs(command) == shown, name


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_no_console_block_goes_unchecked(path: Path) -> None:
    """A block that the test above does not recognise would never be run."""
    text = path.read_text(encoding="utf-8")
    assert text.count("```console\n") == len(re.findall(CONSOLE, text))
