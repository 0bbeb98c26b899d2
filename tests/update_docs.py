"""Write the generated parts of the documents: python tests/update_docs.py.

`generated()` is also what tests/test_docs.py compares the files with.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import accuracy
import beside_others
from click.testing import CliRunner

from hfkv.cli.group import group
from hfkv.cli.manual import MANUALS
from hfkv.core.budget import utilization
from hfkv.core.checks import CHECKS
from hfkv.core.codes import EXPLAINED
from hfkv.core.engines.registry import ENGINES
from hfkv.core.families.catalogue import FamilyEntry, catalogue
from hfkv.core.report import analyze
from hfkv.core.snapshots import loads
from hfkv.core.workload import Deployment, Workload
from hfkv.render.units import size

ROOT = Path(__file__).parent.parent
MAIN = "fixtures/models/meta-llama--Llama-3.1-8B.hfkv.json"


def main_output() -> str:
    """Return what the README's main command prints on 80 columns."""
    return printed("inspect", str(ROOT / MAIN), "--gpu", "a100-80")


COMPARED = ("Llama-3.1-8B", "gemma-3-27b-it", "Qwen3-Next-80B-A3B-Instruct", "Mixtral-8x7B-v0.1")


def compare_output() -> str:
    """Return what `hfkv compare` prints of four models."""
    places = [
        next((ROOT / "fixtures" / "models").glob(f"*--{name}.hfkv.json")) for name in COMPARED
    ]
    return printed("compare", *map(str, places), "--gpu", "h100:2", "--context", "32k", "-b", "8")


def printed(*arguments: str) -> str:
    """Return a command's output as a block."""
    result = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"}).invoke(group, list(arguments))
    if result.exit_code != 0:
        raise RuntimeError(result.output)
    return f"```text\n{result.output.rstrip()}\n```"


def codes() -> str:
    """Return the table of warning codes."""
    rows = [f"| `{code}` | {sentence} |" for code, sentence in EXPLAINED.items()]
    return "\n".join(["| code | what it means |", "|---|---|", *rows])


def exit_codes() -> str:
    """Return the table of exit codes."""
    rows = [f"| {code} | {sentence} |" for code, sentence in MANUALS[""].exits.items()]
    return "\n".join(["| exit code | meaning |", "|---|---|", *rows])


def known() -> str:
    """Return how many model types are known, in a sentence."""
    types = {name for entry in catalogue() for name in entry.model_types}
    return f"{len(types)} model types are known."


def hub_speed() -> str:
    """Return the README's rows of benchmarks/hub_report.md: who reads a model how fast."""
    text = (ROOT / "benchmarks" / "hub_report.md").read_text(encoding="utf-8")
    names = {
        "get_safetensors_metadata": "huggingface_hub, `get_safetensors_metadata`",
        "hfkv": "**hfkv**",
        "hfkv by ranges": "**hfkv** by ranges",
    }
    row = r"^\| ([^|]+?) \| (\d+) \| \d+ \| (\d+) \| (\d+) \|"
    rows = []
    for part in text.split("\n## ")[1:]:
        files = part.partition("\n")[0].partition(": ")[2]
        for name, wall, memory, asked in re.findall(row, part, flags=re.MULTILINE):
            shown = name if name.startswith("hf-mem") else names.get(name)
            if shown:
                said = f"| {files} | {shown} | {int(wall):,} | {memory} | {asked} |"
                rows.append((int(files.split()[0]), said))
    head = ["| a model of | read by | ms | MB | requests |", "|---|---|--:|--:|--:|"]
    return "\n".join([*head, *(said for _, said in sorted(rows, key=lambda one: one[0]))])


ENGINE_MODELS = ("google--gemma-3-27b-it", "Qwen--Qwen3-Next-80B-A3B-Instruct")


def engines() -> str:
    """Return what each engine does, its share of a GPU, and what it takes for two models."""
    heading = (
        "--engine",
        "what it keeps",
        "share",
        *(name.split("--")[1] for name in ENGINE_MODELS),
    )
    rows = []
    for name, (module, _) in ENGINES.items():
        said = (import_module(f"hfkv.core.engines.{module}").__doc__ or "").split("\n", 1)[0]
        words = "What the model needs, and nothing else." if name == "none" else said
        shares = utilization(Deployment(), name)
        rows.append((f"`{name}`", words, f"{float(shares):g}", *_taken(name)))
    lines = [f"| {' | '.join(row)} |" for row in (heading, *rows)]
    return "\n".join([lines[0], f"|---|---|--:|{'--:|' * len(ENGINE_MODELS)}", *lines[1:]])


def _taken(engine: str) -> list[str]:
    """Return what one sequence of 32,768 tokens takes of the pool on one GPU."""
    found = []
    for name in ENGINE_MODELS:
        path = ROOT / "fixtures" / "models" / f"{name}.hfkv.json"
        work = Workload(context=32_768, engine=engine)
        kv = analyze(loads(path.read_bytes(), where=path.name), work).kv
        found.append(size(kv.per_gpu.admission_bytes_per_sequence) if kv else "–")
    return found


def families() -> str:
    """Return the overview: how many model types per kind of layer, with examples."""
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
    "README.md": {
        "main-output": main_output,
        "compare-output": compare_output,
        "exit-codes": exit_codes,
        "codes": codes,
        "known": known,
        "accuracy": accuracy.table,
        "hub-speed": hub_speed,
        "alternatives": beside_others.summary,
        "alternatives-setting": beside_others.setting,
    },
    "docs/families.md": {"families": families, "all-families": all_families},
    "docs/alternatives.md": {
        "setting": beside_others.setting,
        "summary": beside_others.summary,
        "kv": lambda: beside_others.answers("kv"),
        "weights": lambda: beside_others.answers("weights"),
        "silences": beside_others.silences,
    },
    "docs/fit.md": {"engines": engines},
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
