"""--help is a manual: complete, true, and its examples run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from hub_server import HubServer, weights
from local_models import checkpoint

from hfkv.cli import main
from hfkv.cli.exits import Exit
from hfkv.cli.group import COMMANDS, group
from hfkv.cli.manual import MANUALS

PACKAGE = Path(main.__code__.co_filename).parent.parent
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 131072,
    "vocab_size": 4,
    "torch_dtype": "bfloat16",
}
REPOSITORIES = {
    "org/name": [],
    "org/one": [],
    "org/two": [],
    "Qwen/Qwen3-8B": ["text-generation", "awq"],
    "meta-llama/Llama-3.1-8B": [],
    "some/quantized": ["base_model:quantized:meta-llama/Llama-3.1-8B"],
}


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command by its name as it is written, hfkv itself first."""
    root = click.Context(group, info_name="hfkv")
    yield "", group
    for name in COMMANDS:
        command = group.get_command(root, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", one) for inner, one in command.commands.items())


ALL = dict(commands())


def examples(command: click.Command) -> list[str]:
    """Return the command lines that its help shows, continued ones as one."""
    text = (command.epilog or "").replace("\\\n", " ")
    return [line for line in text.splitlines() if line]


EXAMPLES = dict.fromkeys(line for command in ALL.values() for line in examples(command))


@pytest.fixture
def world(hub_server: HubServer, tmp_path: Path) -> Path:
    """Return a folder with what the examples name, beside a Hub that has their repositories."""
    model = {
        "config.json": LLAMA,
        "model.safetensors": weights(("w", "BF16", (2, 2), 8)),
        "tokenizer.json": {},
    }
    for name, tags in REPOSITORIES.items():
        repo = hub_server.add(name, model)
        repo.revisions = ("main", "SHA")
        repo.info = {"tags": tags, "cardData": {"license": "apache-2.0"}}
    here = tmp_path / "here"
    here.mkdir()
    for name in ("checkpoint", "folder", "three"):
        checkpoint(here / name)
        (here / name / "config.json").write_text(json.dumps(LLAMA))
        (here / name / "tokenizer.json").write_text("{}")
    (here / "models.txt").write_text("org/one\norg/two\n")
    return here


def run(line: str, here: Path) -> subprocess.CompletedProcess[str]:
    """Run a line as a person would, with bash."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        cwd=here,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("line", EXAMPLES)
def test_every_example_runs(line: str, world: Path) -> None:
    """It says something and ends well; a check may find something, which is its answer."""
    if "name.hfkv.json --gpu" in line:  # the line before it writes the file
        assert run("hfkv snapshot org/name -o name.hfkv.json", world).returncode == 0
    done = run(line, world)
    assert done.returncode in ({0, 1} if " check " in line else {0}), done.stderr
    assert "Traceback" not in done.stderr
    written = re.search(r"(?:> |-o )(\S+)", line)
    assert (world / written[1]).stat().st_size if written else done.stdout or "eval" in line


@pytest.mark.parametrize("name", ALL)
def test_every_help_is_a_manual(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Summary, options with words, examples, exit codes, environment, see also; 80 columns."""
    assert main([*name.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    for title in ("Examples:", "Exit codes:", "Environment:", "See also:"):
        assert f"\n{title}\n" in shown
    too_long = [line for line in shown.splitlines() if len(line) > 80]
    assert all(line.startswith("  --enable-prefix-caching, ") for line in too_long)
    assert ALL[name].help
    for line in examples(ALL[name]):
        assert line[:40] in shown
    for param in ALL[name].params:
        if isinstance(param, click.Option):
            assert param.help, param.name


VLLM_ONLY = [
    param
    for param in ALL["inspect"].params
    if isinstance(param, click.Option) and (param.help or "").startswith("vLLM: ")
]


@pytest.mark.parametrize("param", VLLM_ONLY, ids=lambda param: param.name)
def test_a_flag_of_vllm_is_refused_by_the_names_that_help_has(
    param: click.Option, capsys: pytest.CaptureFixture[str]
) -> None:
    """All spellings of what was typed, and of a switch the side that was typed."""
    for spellings in filter(None, (param.opts, param.secondary_opts)):
        for typed in spellings:
            words = [typed] if param.is_flag else [typed, "2"]
            assert main(["inspect", "./none", *words]) == Exit.USAGE
            said = capsys.readouterr().err.splitlines()[0]
            assert said == f"hfkv: error: {' / '.join(spellings)} is a flag of vLLM"


def test_every_command_has_a_manual() -> None:
    """No more and no fewer."""
    assert set(MANUALS) == set(ALL)


def test_exit_codes_are_those_that_exist() -> None:
    """Those of the program, each for some command."""
    told = {code for manual in MANUALS.values() for code in manual.exits}
    assert told == {int(code) for code in Exit}


# Older names that huggingface_hub reads too, and what is said of another variable.
UNSAID = {"HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_OFFLINE"}
OF_LIBRARIES = {"HTTPS_PROXY, NO_PROXY"}


def test_the_variables_are_those_that_are_read() -> None:
    """Every variable in a manual is read by the code, and every one that it reads is there."""
    code = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    code = code.replace((PACKAGE / "cli" / "manual.py").read_text(encoding="utf-8"), "")
    told = {name for manual in MANUALS.values() for name in manual.environment} - OF_LIBRARIES
    assert [name for name in sorted(told) if f'"{name}"' not in code] == []
    read = set(re.findall(r'"((?:HF|HFKV|HUGGING_FACE|HUGGINGFACE)_[A-Z_]+)"', code))
    assert read - told <= UNSAID


def test_what_to_see_also_exists() -> None:
    """Each command that a manual points to can be run; those of `hf` are its own."""
    for manual in MANUALS.values():
        for line in manual.see:
            words = line.split()
            assert words[0] in {"hf", "hfkv"}
            if words[0] == "hfkv" and words[1] != "COMMAND":
                assert words[1] in {*COMMANDS, "--help"}


def test_help_under_the_second_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`hf-kv` and `hf kv` speak of themselves."""
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/hf-kv"])
    assert main(["inspect"]) == 2
    assert "hint: 'hf-kv inspect --help' lists what there is" in capsys.readouterr().err


def test_help_does_without_the_report() -> None:
    """What answers is loaded while a server is waited for, and not to show options."""
    script = (
        "import sys\nfrom hfkv.cli import main\nmain(['inspect', '--help'])\n"
        "loaded = {'hfkv.core.report', 'hfkv.core.fit', 'rich', 'requests'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(loaded)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == ""


def test_nothing_asked_is_shown_what_can_be(capsys: pytest.CaptureFixture[str]) -> None:
    """`hfkv` alone is wrong usage, and the whole --help on stderr."""
    assert main(["--help"]) == 0
    manual = capsys.readouterr().out
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err == manual
