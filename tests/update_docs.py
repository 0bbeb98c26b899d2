"""Write the generated parts of the documents: python tests/update_docs.py.

`generated()` is also what tests/test_docs.py compares the files with.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner

from hfkv.cli.group import group
from hfkv.core.checks import CHECKS
from hfkv.core.codes import EXPLAINED
from hfkv.core.families.catalogue import FamilyEntry, catalogue

ROOT = Path(__file__).parent.parent
MAIN = "fixtures/models/meta-llama--Llama-3.1-8B.hfkv.json"


def main_output() -> str:
    """Return what the README's main command prints on 80 columns."""
    arguments = ["inspect", str(ROOT / MAIN), "--gpu", "a100-80"]
    result = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"}).invoke(group, arguments)
    if result.exit_code != 0:
        raise RuntimeError(result.output)
    return f"```text\n{result.output.rstrip()}\n```"


def codes() -> str:
    """Return the table of warning codes."""
    rows = [f"| `{code}` | {sentence} |" for code, sentence in EXPLAINED.items()]
    return "\n".join(["| code | what it means |", "|---|---|", *rows])


def families() -> str:
    """Return the README's table: how many model types per kind of layer, with examples."""
    by_kinds: dict[tuple[str, ...], list[str]] = {}
    for entry in catalogue():
        by_kinds.setdefault(entry.kinds, []).extend(entry.model_types)
    rows = [
        f"| {' + '.join(kinds)} | {len(types)} | {', '.join(sorted(types, key=str.lower)[:6])} |"
        for kinds, types in sorted(by_kinds.items(), key=lambda item: -len(item[1]))
    ]
    return "\n".join(["| layers | model types | such as |", "|---|---|---|", *rows])


def all_families() -> str:
    """Return docs/families.md: every row with its model types and source."""

    def row(entry: FamilyEntry) -> str:
        types = ", ".join(f"`{name}`" for name in entry.model_types)
        return f"| {entry.name} | {' + '.join(entry.kinds)} | {types} | {entry.source} |"

    lines = [row(entry) for entry in catalogue()]
    head = ["| family | layers | model types | source |", "|---|---|---|---|"]
    return "\n".join([*head, *lines])


def checks() -> str:
    """Return the table of checks, each in the words of its own docstring."""
    rows = []
    for name, function in CHECKS.items():
        words = (function.__doc__ or "").split("\n", 1)[0]
        words = words.removeprefix("Check that ").removeprefix("Tell ")
        rows.append(f"| `{name}` | {words[0].upper()}{words[1:]} |")
    return "\n".join(["| check | what it looks at |", "|---|---|", *rows])


BLOCKS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"main-output": main_output, "codes": codes, "families": families},
    "docs/families.md": {"all-families": all_families},
    "docs/check.md": {"checks": checks},
}


def generated(name: str) -> str:
    """Return a document with its generated blocks made anew."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for block, make in BLOCKS[name].items():
        begin, end = f"<!-- begin {block} -->", f"<!-- end {block} -->"
        if begin not in text or end not in text:
            raise RuntimeError(f"{name} has no block {block}")
        head, tail = text[: text.index(begin)], text[text.index(end) :]
        text = f"{head}{begin}\n{make()}\n{tail}"
    return text


if __name__ == "__main__":
    for document in BLOCKS:
        (ROOT / document).write_text(generated(document), encoding="utf-8")
