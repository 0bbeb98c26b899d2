"""What a terminal gets that a pipe does not: colour, progress, and marks beyond ASCII."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hfkv.cli import main
from hfkv.cli.group import group
from hfkv.cli.progress import Progress
from hfkv.core.files import ModelFiles, Target

ROOT = Path(__file__).parent.parent
LLAMA = str(ROOT / "fixtures" / "models" / "meta-llama--Llama-3.1-8B.hfkv.json")


def on_terminal(*args: str, **environment: str) -> str:
    """Run hfkv with its output on a terminal and return what the terminal was sent."""
    leader, follower = pty.openpty()
    env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    done = subprocess.Popen(
        [sys.executable, "-m", "hfkv", *args],
        stdout=follower,
        stderr=follower,
        cwd=ROOT,
        env={**env, "TERM": "xterm-256color", "COLUMNS": "100", **environment},
    )
    os.close(follower)
    told = b""
    try:
        while part := os.read(leader, 65536):
            told += part
    except OSError:  # Linux says so when the other end is closed
        pass
    os.close(leader)
    assert done.wait(timeout=20) == 0
    return told.decode()


def test_a_terminal_gets_colour_and_bars() -> None:
    """The verdict is bold and green, the bar is drawn in blocks."""
    told = on_terminal("inspect", LLAMA, "-g", "a100-80")
    assert "\x1b[1;32m✔ Fits on A100 80GB SXM4" in told
    assert "█" in told


@pytest.mark.parametrize(
    ("args", "environment"),
    [
        ([], {"NO_COLOR": "1"}),
        (["--no-color"], {}),
        ([], {"TERM": "dumb"}),
        (["--json"], {}),
        (["-f", "md"], {}),
    ],
)
def test_whoever_wants_no_colour_gets_none(args: list[str], environment: dict[str, str]) -> None:
    """By option, by environment, by terminal, and in every format for machines."""
    assert "\x1b" not in on_terminal("inspect", LLAMA, *args, **environment)


def test_a_terminal_without_utf8_gets_ascii() -> None:
    """What cannot be shown is not sent."""
    told = on_terminal("inspect", LLAMA, "-g", "a100-80", "--no-color", PYTHONIOENCODING="ascii")
    assert told.isascii()
    assert "+ Fits on A100 80GB SXM4: 131,072 tokens x 1 sequence." in told


def test_json_is_utf8_whatever_the_terminal_speaks(tmp_path: Path) -> None:
    """A document is not spoilt by the encoding of standard output."""
    path = tmp_path / "名前"
    path.mkdir()
    (path / "config.json").write_text('{"model_type": "bert"}')
    done = subprocess.run(
        [sys.executable, "-m", "hfkv", "inspect", str(path), "--json"],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert "名前" in done.stdout.decode("utf-8")


@pytest.mark.parametrize(
    ("stated", "widest"), [("60", 60), ("50", 50), ("0", 80), ("²3", 80), ("wide", 80), ("", 80)]
)
def test_columns_are_what_the_environment_says_or_80(
    stated: str, widest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sentence is wrapped where the columns end; what is no number is not listened to."""
    monkeypatch.setenv("COLUMNS", stated)
    result = CliRunner().invoke(group, ["gpus", "a100-80"], prog_name="hfkv")
    assert result.exit_code == 0, result.output
    longest = max(map(len, result.stdout.splitlines()))
    assert widest - 20 < longest <= widest


def test_progress_is_shown_late_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing for what is over at once; then one line, written over, and wiped at the end."""
    err = io.StringIO()
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setattr("hfkv.cli.progress._FIRST", 0.0)
    monkeypatch.setenv("COLUMNS", "30")
    with Progress() as progress:
        progress(1, 1200, "model-00001-of-01200\x1b.safetensors")
        progress(2, 1200, "too soon after the first")
    assert err.getvalue() == "\r\x1b[2K1 of 1,200  model-00001-of-01\r\x1b[2K"


def test_what_is_over_at_once_needs_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """A local file is read before anybody could look."""
    err = io.StringIO()
    monkeypatch.setattr("sys.stderr", err)
    with Progress() as progress:
        progress(1, 2, "a")
    assert err.getvalue() == ""


def test_progress_is_for_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The source is given nobody to tell when stderr is a pipe, or on --quiet."""
    asked: list[Any] = []

    def load(target: str, *, progress: object, **_how: object) -> ModelFiles:
        asked.append(progress)
        return ModelFiles(target=Target(kind="file", id=target), config={"model_type": "bert"})

    monkeypatch.setattr("hfkv.cli.reading.load", load)
    main(["inspect", "x"])
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    main(["inspect", "x", "--no-progress"])
    main(["inspect", "x", "--quiet"])
    main(["inspect", "x"])
    assert [type(one) for one in asked] == [type(None), type(None), type(None), Progress]
    assert "\x1b" not in capsys.readouterr().err


def test_verbose_tells_what_was_read_and_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    """Files, headers and seconds go to stderr; the token goes nowhere."""
    assert main(["inspect", LLAMA, "--verbose", "--token", "hf_secret", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "hf_secret" not in out + err
    lines = err.splitlines()
    assert lines[0].startswith("hfkv: read meta-llama/Llama-3.1-8B in 0.")
    assert "hfkv: read config.json" in lines
    shard = "model-00004-of-00004.safetensors"  # its file has 1,168,138,808 bytes: 1.09 GiB
    assert f"hfkv: read the header of {shard}: 568 B, 5 tensors of 1.09 GiB" in lines
    assert lines[-1].startswith("hfkv: thought for 0.")


def test_many_headers_are_summed(capsys: pytest.CaptureFixture[str]) -> None:
    """163 shards are not 163 lines."""
    path = ROOT / "fixtures" / "models" / "deepseek-ai--DeepSeek-V3.hfkv.json"
    assert main(["inspect", str(path), "-v", "-q"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["inspect", str(path), "-v"]) == 0
    assert len(capsys.readouterr().err.splitlines()) < 20


def test_a_snapshot_is_read_back_as_it_was_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`hfkv snapshot` of a snapshot is the same file, and the verdict from it the same."""
    copy = tmp_path / "copy.hfkv.json"
    assert main(["snapshot", LLAMA, "-o", str(copy)]) == 0
    assert main(["inspect", LLAMA, "--json"]) == 0
    first = capsys.readouterr().out
    assert main(["inspect", str(copy), "--json"]) == 0
    assert capsys.readouterr().out == first
    assert main(["snapshot", LLAMA, "-o", "-"]) == 0
    assert capsys.readouterr().out == copy.read_text(encoding="utf-8")


def test_seconds_are_counted_while_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow Hub looks alive: the line is written again although no count has changed."""
    shown = io.StringIO()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setattr("hfkv.cli.progress._FIRST", 0.0)
    monkeypatch.setattr("hfkv.cli.progress._EVERY", 0.0)
    monkeypatch.setattr("hfkv.cli.progress._TICK", 0.001)

    def seen(line: str) -> int:
        for _ in range(2000):
            if line in shown.getvalue():
                break
            time.sleep(0.001)
        return shown.getvalue().count(line)

    with Progress() as progress:
        progress._started -= 3600
        assert seen("reading, 3600 s") > 0
        progress(3, 163, "headers")
        monkeypatch.setattr("sys.stderr", shown := io.StringIO())
        assert seen("3 of 163  headers, 3600 s") > 0
    assert shown.getvalue().endswith("\r\x1b[2K")
