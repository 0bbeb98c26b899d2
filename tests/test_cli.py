"""The command line: what it loads, what it writes where, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

import hfkv
from hfkv.cli import main
from hfkv.cli.group import COMMANDS, group
from hfkv.cli.run import wants_json
from hfkv.core.files import ModelFiles
from hfkv.errors import HfkvError, MalformedError, UnreadableError, UnsupportedError

HEAVY = ("rich", "requests", "huggingface_hub", "safetensors", "hfkv.core", "hfkv.render")


def loaded(code: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after `code`."""
    script = f"{code}\nimport sys; print('\\n', *sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines())


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make reading any target fail."""

    def load(target: str, **how: Any) -> ModelFiles:
        del target, how
        raise error

    monkeypatch.setattr("hfkv.cli.reading.load", load)


@pytest.mark.parametrize("code", ["import hfkv", "import hfkv.cli; hfkv.cli.main(['--help'])"])
def test_what_has_not_been_asked_for_is_not_loaded(code: str) -> None:
    """Neither the import nor --help pays for HTTP, tables or the core."""
    modules = loaded(code)
    assert "hfkv" in modules
    assert not {name for name in modules if name.startswith(HEAVY)}


def test_json_needs_no_rich() -> None:
    """A script that wants JSON does not wait for the terminal library."""
    modules = loaded("import hfkv.cli; hfkv.cli.main(['gpus', '--json'])")
    assert "hfkv.core.gpus" in modules
    assert "rich" not in modules
    assert "requests" not in modules


def test_the_public_names_are_there() -> None:
    """Every name in `__all__` loads, and an unknown one fails as it does anywhere."""
    assert set(hfkv.__all__) <= set(dir(hfkv))
    assert all(getattr(hfkv, name) is not None for name in hfkv.__all__)
    assert issubclass(hfkv.UsageError, hfkv.HfkvError)
    with pytest.raises(AttributeError, match="module 'hfkv' has no attribute 'nothing'"):
        _ = hfkv.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_what_the_table_says(name: str) -> None:
    """The table's line is the first sentence of the command's own help."""
    context = click.Context(group)
    command = group.get_command(context, name)
    assert command is not None
    assert command.name == name
    assert command.help
    assert command.help.splitlines()[0] == COMMANDS[name].help


def test_help_ends_with_success(capsys: pytest.CaptureFixture[str]) -> None:
    """--help lists the commands and exits with 0; so does each command's own."""
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in COMMANDS)
    assert main(["inspect", "--help"]) == 0
    assert "--max-model-len" in capsys.readouterr().out


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    """`hfkv --version` is what the package says."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"hfkv {hfkv.__version__}\n"


@pytest.mark.parametrize(
    ("argv", "message", "hint"),
    [
        (
            ["inspect"],
            "Missing argument 'TARGET'.",
            "'hfkv inspect --help' lists what there is",
        ),
        (["nothing"], "No such command 'nothing'.", "'hfkv --help' lists what there is"),
        (
            ["inspect", "x", "--overhead", "2"],
            "Invalid value for '--overhead': '2' is not a size such as 2gib (2^30) or 2gb (10^9)",
            "'hfkv inspect --help' lists what there is",
        ),
        (
            ["inspect", "x", "--engine", "nothing"],
            "unknown engine 'nothing'",
            None,
        ),
        (
            ["inspect", "x", "--seq-lens", "1k", "--context", "2k"],
            "--seq-lens replaces --context and --concurrency",
            "drop them, or drop --seq-lens",
        ),
        (
            ["inspect", "x", "--fail-if-not-fit"],
            "--fail-if-not-fit needs a --gpu to fit on",
            None,
        ),
        (["gpus", "--json", "-f", "md"], "--json and --format md contradict each other", None),
        (
            ["gpus", "-o", "no/such/folder/x"],
            "no/such/folder/x: its folder does not exist",
            "create it first, or choose another",
        ),
        (["gpus", "-o", "."], ".: this is a folder", "name a file"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(
    argv: list[str], message: str, hint: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever noticed it, click or hfkv, it reads the same."""
    assert main(argv) == 2
    out, err = capsys.readouterr()
    first, *rest = err.splitlines()
    assert first == f"hfkv: error: {message}"
    if hint is not None:
        assert rest == [f"hint: {hint}"]
    assert (out != "") == ("--json" in argv)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnreadableError("there is no such repository", where="a/b", hint="look twice"), 3),
        (MalformedError("the header is cut short", where="x.safetensors"), 4),
        (UnsupportedError("nothing states the layers", code="layers"), 5),
        (HfkvError("something else"), 70),
    ],
)
def test_failures_have_their_code_and_their_document(
    error: HfkvError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sentence on stderr, and with --json the same in parts on stdout."""
    fail_with(monkeypatch, error)
    assert main(["inspect", "a/b", "--json"]) == code
    out, err = capsys.readouterr()
    hint = f"hint: {error.hint}\n" if error.hint else ""
    assert err == f"hfkv: error: {error.message}\n{hint}"
    assert json.loads(out) == {
        "schema": "hfkv.error/1",
        "error": {"code": error.code, "message": error.message, "hint": error.hint},
    }
    assert main(["inspect", "a/b"]) == code
    assert capsys.readouterr().out == ""


def test_a_foreign_message_does_not_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a server or a file says is written out, on one line."""
    fail_with(monkeypatch, UnreadableError("it said \x1b[2J\nand\u202eso on"))
    assert main(["inspect", "a/b"]) == 3
    assert capsys.readouterr().err == "hfkv: error: it said \\x1b[2J\\x0aand\\u202eso on\n"


def test_a_bug_shows_a_traceback_and_asks_for_a_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An exception nobody expected never looks like an answer."""
    fail_with(monkeypatch, ZeroDivisionError("by nothing"))
    assert main(["inspect", "a/b", "--json"]) == 70
    out, err = capsys.readouterr()
    assert err.startswith("Traceback (most recent call last):\n")
    assert err.endswith(
        "hfkv: error: this is a bug in hfkv: ZeroDivisionError: by nothing\n"
        "hint: please report it with the lines above and the command you ran\n"
    )
    assert json.loads(out)["error"]["code"] == "bug"


def test_ctrl_c_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Interrupted while reading: 130, one line, nothing on stdout."""
    fail_with(monkeypatch, KeyboardInterrupt())
    assert main(["inspect", "a/b", "--json"]) == 130
    assert capsys.readouterr() == ("", "hfkv: interrupted\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_standard_output_is_a_sentence() -> None:
    """Writing to a full device is no traceback, neither now nor when the interpreter ends."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "hfkv", "gpus"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == (
        "hfkv: error: cannot write to standard output: No space left on device\n"
        "hint: free some space, or write elsewhere with --output FILE\n"
    )


def test_a_reader_that_leaves_is_no_failure() -> None:
    """`hfkv gpus | head -1`: nothing on stderr, and the exit code is the answer's."""
    pipe = subprocess.Popen(
        [sys.executable, "-m", "hfkv", "gpus", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert pipe.stdout
    assert pipe.stderr
    pipe.stdout.close()
    assert pipe.stderr.read() == b""
    assert pipe.wait(timeout=20) == 0
    pipe.stderr.close()


@pytest.mark.parametrize(
    ("argv", "wanted"),
    [
        (["inspect", "x", "--json"], True),
        (["inspect", "x", "-f", "json"], True),
        (["inspect", "x", "--format=json"], True),
        (["inspect", "x", "-fjson"], True),
        (["inspect", "x", "-f", "md"], False),
        (["inspect", "--", "--json"], False),
        ([], False),
    ],
)
def test_json_is_recognised_where_click_gave_up(argv: list[str], *, wanted: bool) -> None:
    """A wrong option before --json still ends in a document."""
    assert wants_json(argv) is wanted
