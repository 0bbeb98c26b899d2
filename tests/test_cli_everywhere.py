"""Every command that writes text, on every terminal: width, colour, characters, a closed pipe."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from hfkv.cli import main
from hfkv.cli.group import COMMANDS

ROOT = Path(__file__).parent.parent
MODELS = ROOT / "fixtures" / "models"
LLAMA = str(MODELS / "meta-llama--Llama-3.1-8B.hfkv.json")
GEMMA = str(MODELS / "google--gemma-3-27b-it.hfkv.json")
WORK = ["-g", "rtx4090", "-g", "h100:4", "-c", "16k", "-b", "2"]
TEXTS = {
    "inspect": ["inspect", LLAMA, *WORK[:2], "--explain"],
    "inspect-several": ["inspect", GEMMA, *WORK, "--speed"],
    "inspect-vllm": ["inspect", GEMMA, *WORK[2:], "--engine", "vllm", "--weights-dtype", "int4"],
    "compare": ["compare", LLAMA, GEMMA, "./none", *WORK],
    "check": ["check", LLAMA, *WORK[:2]],
    "kv": ["kv", "--layers", "6", "--hidden", "4096", "--heads", "32", "--window", "1k:5/6", *WORK],
    "gpus": ["gpus"],
    "gpus-one": ["gpus", "h200"],
    "families": ["families"],
}
EXPECTED = {"check": 1}  # the fixture has no tokenizer


class Terminal(io.TextIOWrapper):
    """A standard output that is a terminal of some encoding."""

    def __init__(self, encoding: str) -> None:
        super().__init__(io.BytesIO(), encoding=encoding)

    def isatty(self) -> bool:
        """Say yes."""
        return True

    def text(self) -> str:
        """Return what was written."""
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode(self.encoding)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")


def shown(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    *more: str,
    encoding: str = "utf-8",
    columns: int = 80,
) -> str:
    """Run a command on a terminal and return what it was sent."""
    out = Terminal(encoding)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout", out)
    assert main([*TEXTS[name], *more]) == EXPECTED.get(name, 0)
    return out.text()


def test_every_command_that_writes_text_is_here() -> None:
    """A new command has to stand these tests too, unless it writes documents or one plain line."""
    plain = {"cache", "completion", "scan", "snapshot"}
    assert {args[0] for args in TEXTS.values()} == COMMANDS.keys() - plain


@pytest.mark.parametrize("name", TEXTS)
def test_no_line_is_wider_than_the_terminal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 40 columns to 200."""
    for columns in (40, 60, 80, 140, 200):
        lines = shown(monkeypatch, name, columns=columns).splitlines()
        plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
        assert max(map(cell_len, plain)) <= columns, columns
        # a word that is torn apart leaves lines of one character
        assert not [line for line in plain if re.fullmatch(r" *\w", line)], columns


@pytest.mark.parametrize("name", TEXTS)
def test_colour_changes_no_character(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the styles taken out, coloured text is the plain text."""
    coloured = shown(monkeypatch, name)
    assert "\x1b[" in coloured
    plain = shown(monkeypatch, name, "--no-color")
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown(monkeypatch, name) == plain
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert shown(monkeypatch, name) == plain


@pytest.mark.parametrize("name", TEXTS)
def test_a_terminal_without_utf8_gets_ascii(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars and marks have plain twins of the same width; nothing is escaped."""
    plain = shown(monkeypatch, name, "--no-color", encoding="ascii")
    fancy = shown(monkeypatch, name, "--no-color")
    assert "\\u" not in plain
    assert "\\x" not in plain
    assert [len(line) for line in plain.splitlines()] == [len(line) for line in fancy.splitlines()]


@pytest.mark.parametrize("name", ["inspect", "compare", "check", "kv", "families"])
def test_a_reader_that_leaves_is_no_failure(name: str) -> None:
    """`hfkv … | head -1`: nothing of it on stderr, and the exit code is the answer's."""
    pipe = subprocess.Popen(
        [sys.executable, "-m", "hfkv", *TEXTS[name]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    assert pipe.stdout
    assert pipe.stderr
    pipe.stdout.close()
    told = pipe.stderr.read().decode()
    pipe.stderr.close()
    assert pipe.wait(timeout=30) == EXPECTED.get(name, 0)
    assert "Broken pipe" not in told
    assert "Traceback" not in told
