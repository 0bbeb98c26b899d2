"""The agent's skill is true: its front matter, its commands, fields and exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import hfkv
from hfkv.api.schemas import SCHEMAS
from hfkv.cli.exits import Exit
from hfkv.cli.group import COMMANDS
from hfkv.core.engines.registry import ENGINES

ROOT = Path(__file__).parent.parent
SKILL = (ROOT / "skills" / "hfkv" / "SKILL.md").read_text(encoding="utf-8")
SHOWN = [
    line
    for block in re.findall(r"```sh\n(.*?)```", SKILL, re.DOTALL)
    for line in block.splitlines()
]
MODEL = ROOT / "fixtures" / "models" / "meta-llama--Llama-3.1-8B.hfkv.json"


def test_the_front_matter_says_what_and_when() -> None:
    """Name as the folder's, a description that an agent can choose by, within their limits."""
    front = import_module("yaml").safe_load(SKILL.split("---")[1])  # it comes with huggingface_hub
    assert front["name"] == "hfkv"
    assert 100 < len(front["description"]) <= 1024
    assert "Use for" in front["description"]
    assert "<" not in front["description"]


@pytest.mark.parametrize("line", SHOWN)
def test_every_command_runs(line: str) -> None:
    """As it stands, from the project's folder; a remark says with what it exits, if not with 0."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    stated = re.search(r"# exits with (\d+)", line)
    assert done.returncode == (int(stated[1]) if stated else 0), done.stderr
    assert isinstance(json.loads(done.stdout), dict)


def test_every_command_is_told() -> None:
    """But those that are for people."""
    for name in COMMANDS.keys() - {"cache", "completion", "snapshot"}:
        assert f"`hfkv {name} " in SKILL, name
    for name in ENGINES.keys() - {"none"}:
        assert f"`{name}`" in SKILL or f"--engine {name}" in SKILL


def test_every_field_exists() -> None:
    """What the table names is in a real document, and in its schema."""
    table = SKILL[SKILL.index("| field |") : SKILL.index("`python -c")]
    rows = re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`([a-z_.\[\]]+)`", row)]
    assert len(names) > 15
    report = hfkv.inspect(MODEL, gpu="24gib", context="128k", concurrency=2).to_dict()
    parent = ""
    for name in names:
        full = f"{parent}{name}" if name.startswith(".") else name
        parent = full.rpartition(".")[0]
        found(report, full)


def found(document: Any, name: str) -> Any:
    """Return a value by its path; `[]` is any element of a list."""
    for step in name.split("."):
        document = document[step.removesuffix("[]")]
        if step.endswith("[]"):
            document = document[0] if document else {}
    return document


def test_what_an_estimate_is_told_by() -> None:
    """The fields that the pitfalls name."""
    report = hfkv.inspect(MODEL, gpu="24gib", context="8k", weights_dtype="int4").to_dict()
    assert report["weights"]["what_if"]["estimate"] is True
    fit = report["fit"][0]
    assert fit["overhead_low_bytes"] <= fit["overhead_bytes_per_gpu"] <= fit["overhead_high_bytes"]


def test_exit_codes_and_schemas_are_all_there() -> None:
    """Each code that is an answer, each kind of document."""
    rows = re.findall(r"^\| (\d+) \|", SKILL, re.MULTILINE)
    assert [int(row) for row in rows] == [int(code) for code in Exit if code < Exit.BUG]
    listed = SKILL[SKILL.index("prints the JSON Schema") :].split("```")[0]
    assert all(name in listed or name == "inspect" for name in SCHEMAS)


def test_how_wrong_the_usual_formula_is() -> None:
    """DeepSeek-V3: what the formula makes of its config, against the latent that is kept."""
    model = ROOT / "fixtures" / "models" / "deepseek-ai--DeepSeek-V3.hfkv.json"
    document = hfkv.inspect(model).to_dict()
    # hidden 7168 / 128 heads = 56 wide: 2 x 128 x 56 elements, and 512 + 64 are kept
    stated = 2 * 128 * 56 / (512 + 64)
    assert document["kv_cache"]["simple_formula"]["ratio"] == pytest.approx(stated, abs=0.0001)
    assert f"it says {stated:.0f} times what is kept" in SKILL
