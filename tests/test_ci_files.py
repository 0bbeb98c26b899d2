"""The GitHub action and the pre-commit hook: what they declare, and the commands they run."""

from __future__ import annotations

import os
import re
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from hfkv.cli.group import COMMANDS

ROOT = Path(__file__).parent.parent
ACTION = (ROOT / "action.yml").read_text(encoding="utf-8")


def read_yaml(text: str) -> Any:
    """Return what YAML text holds; PyYAML comes with huggingface_hub."""
    return import_module("yaml").safe_load(text)


ACTION_FILE: dict[str, Any] = read_yaml(ACTION)
CHECK: dict[str, Any] = ACTION_FILE["runs"]["steps"][-1]


def run_step(tmp_path: Path, **inputs: str) -> list[str]:
    """Run the last step as the runner would and return the words that hfkv was given."""
    stub = tmp_path / "hfkv"
    stub.write_text('#!/bin/sh\nprintf "%s\\n" "$@" | sed "s/^/> /"\n')
    stub.chmod(0o755)
    defaults = {name: one.get("default", "") for name, one in ACTION_FILE["inputs"].items()}
    given = defaults | {name.replace("_", "-"): value for name, value in inputs.items()}
    env = {
        name: re.sub(r"\$\{\{ inputs\.([a-z-]+).*\}\}", lambda m: given[m[1]], value)
        for name, value in CHECK["env"].items()
    }
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", CHECK["run"]],
        env={"PATH": os.environ["PATH"], "HFKV": str(stub), "RUNNER_TEMP": str(tmp_path), **env},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.removeprefix("> ") for line in done.stdout.splitlines()]


def test_every_input_is_used_and_declared() -> None:
    """None is promised and forgotten, none is used and unknown."""
    used = set(re.findall(r"inputs\.([a-z-]+)", ACTION))
    assert used == set(ACTION_FILE["inputs"])
    assert all(one["description"] for one in ACTION_FILE["inputs"].values())


def test_no_script_is_put_together_from_inputs() -> None:
    """An expression inside `run` would let a value become shell code."""
    assert all("${{" not in step.get("run", "") for step in ACTION_FILE["runs"]["steps"])


def test_a_target_alone_is_enough(tmp_path: Path) -> None:
    """Whatever was not given is left to hfkv's own defaults."""
    assert run_step(tmp_path, target="org/name") == ["check", "--fail-on=fail", "--", "org/name"]


def test_inputs_become_options(tmp_path: Path) -> None:
    """Lists are one a line; blank lines are none."""
    assert run_step(
        tmp_path,
        target="org/name@abc",
        gpu="rtx4090\nh100:4\n",
        context="32k",
        concurrency="8",
        kv_dtype="fp8",
        engine="vllm",
        skip="disk\n\ncached\n",
        allow_license="apache-2.0\nmit",
        fail_on="warn",
        junit="out/checks.xml",
        args="--timeout\n90\n",
    ) == [
        "check",
        "--fail-on=warn",
        "--context=32k",
        "--concurrency=8",
        "--kv-dtype=fp8",
        "--engine=vllm",
        "--gpu=rtx4090",
        "--gpu=h100:4",
        "--skip=disk",
        "--skip=cached",
        "--allow-license=apache-2.0",
        "--allow-license=mit",
        "--format=junit",
        "--output=out/checks.xml",
        "--timeout",
        "90",
        "--",
        "org/name@abc",
    ]


@pytest.mark.parametrize(
    "value", ["$(touch pwned)", "`touch pwned`", "x; touch pwned", '"; a', "-h"]
)
def test_a_value_is_never_shell_code(tmp_path: Path, value: str) -> None:
    """It arrives as one word, whatever it says."""
    words = run_step(tmp_path, target=value, gpu=value)
    assert words == ["check", "--fail-on=fail", f"--gpu={value}", "--", value]
    assert not (tmp_path / "pwned").exists()


def test_the_hook_runs_a_command_that_exists() -> None:
    """Its entry is a command of hfkv, and it wants no file names."""
    (hook,) = read_yaml((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    program, command = hook["entry"].split()
    assert program == "hfkv"
    assert command in COMMANDS
    assert (hook["language"], hook["pass_filenames"], hook["always_run"]) == ("python", False, True)
