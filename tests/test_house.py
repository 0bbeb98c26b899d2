"""The house keeps its shape: who may import whom, what the core may touch, what loads lazily."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hfkv

PACKAGE = Path(hfkv.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# Each room may use the rooms before it. Rooms on one line do not use each other.
ORDER = (
    ("errors", "core.record"),
    ("core.counts", "core.dtypes", "core.stores"),
    ("core.codes", "core.files", "core.readings", "core.workload"),
    ("core.config", "core.gpus", "core.jsontext", "core.params", "core.templates", "core.written"),
    ("core.descend", "core.fused", "core.headers", "core.kinds", "core.ropes", "core.standing"),
    ("core.bundle",),
    ("core.roles",),
    ("core.manifest", "core.patterns", "core.quantization", "core.snapshots"),
    ("core.families",),
    ("core.architecture",),
    ("core.parallel", "core.pieces", "core.positions"),
    ("core.engines",),
    ("core.portions",),
    ("core.evidence", "core.shares", "core.weights"),
    ("core.loading", "core.what_if"),
    ("core.precision",),
    ("core.ranks",),
    ("core.simple",),
    ("core.kv",),
    ("core.overhead",),
    ("core.budget",),
    ("core.balance",),
    ("core.answers", "core.plans", "core.speed", "core.ways"),
    ("core.fit",),
    ("core.commands", "core.findings", "core.calculator"),
    ("core.report",),
    ("core.account", "core.comparison", "core.checks"),
    ("sources", "render"),
    ("api",),
    ("cli",),
)
FORBIDDEN_IN_CORE = {
    "click",
    "huggingface_hub",
    "os",
    "pathlib",
    "requests",
    "rich",
    "safetensors",
    "socket",
    "subprocess",
    "time",
    "urllib",
}


def name_of(path: Path) -> str:
    """Return the dotted name of a module below the package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def level_of(module: str) -> int | None:
    """Return how far up the house a module lives, None for the package's own front."""
    for level, rooms in enumerate(ORDER):
        for room in rooms:
            if module == room or module.startswith(room + "."):
                return level
    return None


def imports_of(path: Path) -> set[str]:
    """Return the absolute names a module imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_run_one_way(path: Path) -> None:
    """A module imports only from its own room or from rooms before it."""
    mine = level_of(name_of(path))
    for name in imports_of(path):
        if not name.startswith("hfkv.") or mine is None:
            continue
        theirs = level_of(name.removeprefix("hfkv."))
        assert theirs is None or theirs <= mine, f"{name_of(path)} imports {name}"


def test_every_room_is_in_the_order() -> None:
    """No module is outside the order (the package's front and the core's own docstring aside)."""
    outside = [name_of(path) for path in MODULES if level_of(name_of(path)) is None]
    assert sorted(outside) == ["", "__main__", "core"]


@pytest.mark.parametrize("path", [path for path in MODULES if "core" in path.parts], ids=name_of)
def test_the_core_is_pure(path: Path) -> None:
    """The core imports nothing that reads a file, a socket, the clock or the environment."""
    roots = {name.split(".")[0] for name in imports_of(path)}
    assert not roots & FORBIDDEN_IN_CORE


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_files_stay_readable(path: Path) -> None:
    """No file is longer than 350 lines, no function longer than 70."""
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 350
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert (node.end_lineno or 0) - node.lineno < 70, node.name


@pytest.mark.parametrize(
    "code",
    [
        "import hfkv",
        "from hfkv.cli import main; main(['--help'])",
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(code: str) -> None:
    """Importing the package or asking for help loads no HTTP library, hub client or rich."""
    script = (
        "import contextlib, io, sys\n"
        f"with contextlib.redirect_stdout(io.StringIO()):\n    {code}\n"
        "print(sorted({'requests', 'huggingface_hub', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
