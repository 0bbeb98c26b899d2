"""Write the golden files and the outputs in docs/ anew, then read the diff.

    python tests/update_golden.py

A golden file is a SNAPSHOT of hfkv's own output, not a truth: it shows what changed, and the
diff is to be read before it is committed. Figures are proven elsewhere.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden"

DOCS = sorted((ROOT / "docs").glob("*.md"))
# `$ hfkv …`, which a backslash may continue, and the output below it
CONSOLE = re.compile(r"(```console\n\$ hfkv )((?:[^\n]*\\\n)*[^\n]*\n)(.*?)(```\n)", re.DOTALL)

LABEL = "snapshot of hfkv's own output; python tests/update_golden.py writes it anew"


class Captured(io.TextIOWrapper):
    """A standard stream that keeps what was written."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def text(self) -> str:
        """Return what was written."""
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode()


@contextmanager
def at_home(columns: int) -> Iterator[None]:
    """Stand in the project's folder, before a terminal of so many columns."""
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        here = {"COLUMNS": str(columns), "HF_HUB_OFFLINE": "1", "GITHUB_ACTIONS": ""}
        with mock.patch.dict(os.environ, here):
            yield
    finally:
        os.chdir(before)


def answer(args: list[str], columns: int) -> dict[str, Any]:
    """Run one command line in this process; return what it wrote and its exit code."""
    from hfkv import __version__  # noqa: PLC0415  the script puts the project on the path first
    from hfkv.cli import main  # noqa: PLC0415

    out, err = Captured(), Captured()
    with at_home(columns), mock.patch("sys.stdout", out), mock.patch("sys.stderr", err):
        code = main(args)
    shown = out.text().replace(f'"hfkv_version": "{__version__}"', '"hfkv_version": "…"')
    return {"stdout": shown.splitlines(), "stderr": err.text().splitlines(), "exit": code}


def told_in_docs(command: str) -> str:
    """Return what a command line of the documents says now, the way it stands there."""
    told = answer(shlex.split(command.replace("\\\n", " ")), 80)
    return "".join(f"{line}\n" for line in (*told["stdout"], *told["stderr"]))


def update_docs() -> None:
    """Run every command in the documents again."""
    for path in DOCS:
        text = path.read_text(encoding="utf-8")
        text = CONSOLE.sub(lambda m: m[1] + m[2] + told_in_docs(m[2]) + m[4], text)
        path.write_text(text, encoding="utf-8")


def update() -> None:
    """Answer every golden command line again."""
    for path in sorted(GOLDEN.glob("*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        given = {"kind": LABEL, "args": case["args"], "columns": case.get("columns", 80)}
        told = answer(given["args"], given["columns"])
        if told["exit"] == 70:
            sys.exit(f"{path.name} ends in a bug, which is no output to keep:\n{told['stderr']}")
        whole = {**given, **told}
        path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    update()
    update_docs()
