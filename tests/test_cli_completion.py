"""Completion in bash, zsh and fish: what is offered, by whom, and never from a network."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hfkv.cli import main
from hfkv.cli.group import COMMANDS, COMPLETE
from hfkv.core.engines.registry import ENGINES
from hfkv.core.gpus import table

HERE = Path(sys.executable).parent
PATH = f"{HERE}{os.pathsep}{os.environ['PATH']}"


def needs(shell: str) -> pytest.MarkDecorator:
    """Return a mark: skip where the shell, or the command it is to complete, is missing."""
    missing = shutil.which(shell) is None or shutil.which("hf-kv", path=PATH) is None
    return pytest.mark.skipif(missing, reason=f"{shell} or hf-kv is not installed")


def offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> list[str]:
    """Return what bash is told, for words of which the last one is being typed."""
    monkeypatch.setenv(COMPLETE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "\n".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    main([])
    return capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("hfkv in", ["plain,inspect"]),
        ("hfkv -", ["plain,--version", "plain,--help"]),
        ("hfkv inspect --gpu a100", ["plain,a100-40", "plain,a100-80"]),
        ("hfkv inspect --gpu A100-8", ["plain,a100-80"]),
        ("hfkv inspect --gpu 4xrtx409", ["plain,4xrtx4090"]),
        ("hfkv inspect --gpu au", ["plain,auto"]),
        ("hfkv inspect --gpu = a100-8", ["plain,a100-80"]),
        ("hfkv inspect --gpu = a100-80 --engine vl", ["plain,vllm"]),
        ("hfkv inspect --kv-dtype au", ["plain,auto"]),
        ("hfkv inspect --kv-dtype q8", ["plain,q8_0"]),
        ("hfkv inspect --weights-dtype nf", ["plain,nf4"]),
        ("hfkv inspect --max-num-s", ["plain,--max-num-seqs"]),
        ("hfkv inspect -f ht", ["plain,html"]),
        ("hfkv inspect -o fil", ["file,fil"]),
        ("hfkv inspect ./che", ["file,./che"]),
        ("hfkv families gemma3_", ["plain,gemma3_text"]),
        ("hfkv gpus h200-n", ["plain,h200-nvl"]),
        ("hfkv check x --skip tok", ["plain,tokenizer"]),
        ("hfkv compare --sort kv-", ["plain,kv-per-token"]),
        ("hfkv cache cl", ["plain,clear"]),
        ("hfkv completion fi", ["plain,fish"]),
        ("hfkv nothing x", []),
    ],
)
def test_what_is_offered(
    line: str,
    some: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Values by the option they follow; files are left to the shell."""
    found = offered(monkeypatch, capsys, *line.split(" "))
    assert set(some) <= set(found)
    if not some:
        assert found == []


def test_all_that_is_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command, GPU and engine; `kv` has no checkpoint that could declare a format."""
    assert offered(monkeypatch, capsys, "hfkv", "") == [f"plain,{name}" for name in COMMANDS]
    gpus = [f"plain,{one.slug}" for one in table()]
    assert offered(monkeypatch, capsys, "hfkv", "gpus", "") == ["plain,auto", "plain,all", *gpus]
    engines = [f"plain,{name}" for name in ENGINES]
    assert offered(monkeypatch, capsys, "hfkv", "inspect", "--engine", "") == engines
    assert "plain,auto" not in offered(monkeypatch, capsys, "hfkv", "kv", "--kv-dtype", "")


def test_models_that_were_met_are_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those in either cache, beside what of this folder begins so; paths are the shell's."""
    (tmp_path / "hfkv-cache" / "v1" / "hub" / "models--org--first").mkdir(parents=True)
    (tmp_path / "hf-home" / "hub" / "models--org--second--third").mkdir(parents=True)
    here = tmp_path / "here"
    (here / "orga").mkdir(parents=True)
    (here / "organ.json").touch()
    (here / ".orgb").touch()
    (here / "orgc.txt").touch()
    monkeypatch.chdir(here)
    models = ["plain,org/first", "plain,org/second--third"]
    for command in ("inspect", "compare", "check", "scan", "snapshot"):
        found = offered(monkeypatch, capsys, "hfkv", command, "org")
        assert found == [*models, "plain,orga/", "plain,organ.json"]
    assert offered(monkeypatch, capsys, "hfkv", "inspect", "ORG/S") == models[1:]
    assert offered(monkeypatch, capsys, "hfkv", "compare", "--variants", "org/f") == models[:1]
    assert offered(monkeypatch, capsys, "hfkv", "inspect", "./o") == ["file,./o"]


def test_a_failure_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever a shell says: its user is typing."""
    monkeypatch.setenv(COMPLETE, "bash_complete")
    monkeypatch.setenv("COMP_CWORD", "x")
    assert main([]) == 1
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("line", ["hfkv inspect --gpu a", "hfkv families g", "hfkv inspect org"])
def test_completion_loads_nothing_heavy(line: str) -> None:
    """Neither HTTP nor tables: it runs at every press of a key."""
    script = (
        "import os, sys\n"
        f"os.environ.update({COMPLETE}='bash_complete', COMP_WORDS={line!r}, COMP_CWORD='3')\n"
        f"os.environ['COMP_CWORD'] = str(len({line!r}.split()) - 1)\n"
        "from hfkv.cli import main\n"
        "code = main([])\n"
        "heavy = {'requests', 'urllib3', 'huggingface_hub', 'rich', 'safetensors'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_for_both_names(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One function, registered for hfkv and for hf-kv."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert script.count("_hfkv_completion()") + script.count("function _hfkv_completion") == 1
    told = [line for line in script.splitlines() if "hf-kv" in line]
    assert len(told) == (2 if shell == "zsh" else 1)


def test_which_shell_is_the_one_in_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SHELL says; where it says nothing that is known, so does the sentence."""
    monkeypatch.setenv("SHELL", "/usr/local/bin/fish")
    assert main(["completion"]) == 0
    assert "function _hfkv_completion" in capsys.readouterr().out
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert main(["completion"]) == 2
    told = capsys.readouterr().err
    assert told == "hfkv: error: the shell 'tcsh' is not known\nhint: say which: bash, zsh, fish\n"


def said(command: list[str], here: Path) -> str:
    """Return what a command says, in a home of its own."""
    environment = {**os.environ, "PATH": PATH, "HOME": str(here)}
    return subprocess.run(
        command, cwd=here, env=environment, capture_output=True, text=True, check=True
    ).stdout


def typed(shell: list[str], first: str, keys: str, made: Path) -> str:
    """Type into a shell of its own terminal until it has made a file; return what is in it."""
    environment = {**os.environ, "PATH": PATH, "TERM": "dumb", "PS1": "> ", "HISTFILE": "/dev/null"}
    terminal, theirs = pty.openpty()
    child = subprocess.Popen(
        shell,
        cwd=made.parent,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    try:
        os.write(terminal, f"{first}\necho rea''dy\n".encode())
        sent = False
        end = time.monotonic() + 30
        while time.monotonic() < end and not (made.exists() and made.stat().st_size):
            if select.select([terminal], [], [], 0.1)[0]:
                shown += os.read(terminal, 65536)
            if not sent and b"ready" in shown:
                os.write(terminal, keys.encode())
                sent = True
        return made.read_text() if made.exists() else shown.decode(errors="replace")
    finally:
        child.kill()
        child.wait()
        os.close(terminal)


INTERACTIVE = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source ./script"),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit; compinit -u -D; source ./script"),
}


@pytest.mark.parametrize("shell", [pytest.param(name, marks=needs(name)) for name in INTERACTIVE])
@pytest.mark.parametrize("line", ["hfkv gpus h200-n\t --json", "hf-kv gpus h200-n\t --json"])
def test_a_key_is_pressed(shell: str, line: str, tmp_path: Path) -> None:
    """In a real shell, at a terminal: the name is completed, and the command runs with it."""
    (tmp_path / "script").write_text(said(["hfkv", "completion", shell], tmp_path))
    argv, first = INTERACTIVE[shell]
    made = tmp_path / "made.json"
    told = typed(argv, first, f"{line} > made.tmp && mv made.tmp made.json\n", made)
    assert json.loads(told)["gpus"][0]["slug"] == "h200-nvl", told


@needs("fish")
@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("hfkv gpus h200-n", {"h200-nvl"}),
        ("hf-kv inspect --gpu=h200-n", {"--gpu=h200-nvl"}),
        ("hfkv inspect --engine vl", {"vllm"}),
        ("hfkv inspect -b 8", set()),
        ("hfkv inspect check", {"checkpoint/"}),
    ],
)
def test_fish(line: str, some: set[str], tmp_path: Path) -> None:
    """What fish itself says it would offer."""
    (tmp_path / "checkpoint").mkdir()
    code = f"hfkv completion fish | source; complete -C '{line}'"
    told = said(["fish", "--no-config", "-c", code], tmp_path)
    assert {row.split("\t")[0] for row in told.splitlines()} == some


@needs("fish")
def test_fish_is_told_all_that_a_command_does(tmp_path: Path) -> None:
    """The commas of a description do not end it."""
    told = said(
        ["fish", "--no-config", "-c", "hfkv completion fish | source; complete -C 'hfkv inspe'"],
        tmp_path,
    )
    assert told == "inspect\tSize one model: weights, KV cache, and whether it fits.\n"
