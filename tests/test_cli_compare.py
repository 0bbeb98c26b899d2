"""`hfkv compare`: rows, failures in their place, where targets come from, exit codes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import hfkv
from hfkv.cli import main
from hfkv.core.files import ModelFiles
from hfkv.errors import MalformedError, UnreadableError

MODELS = Path(__file__).parent.parent / "fixtures" / "models"
LLAMA = str(MODELS / "meta-llama--Llama-3.1-8B.hfkv.json")
QWEN = str(MODELS / "Qwen--Qwen2.5-7B-Instruct.hfkv.json")
DEEPSEEK = str(MODELS / "deepseek-ai--DeepSeek-V2-Lite.hfkv.json")
WORK = ["-c", "32k", "-g", "a100-80", "-g", "rtx4090", "--overhead", "2gib"]


def document(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> dict[str, Any]:
    """Return what a comparison says in JSON."""
    assert main(["compare", *args, "--json"]) == code
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def ids(told: dict[str, Any]) -> list[str]:
    """Return the models of a document in order."""
    return [model["target"]["id"] if "target" in model else model["id"] for model in told["models"]]


def test_each_model_is_its_own_inspect_report(capsys: pytest.CaptureFixture[str]) -> None:
    """A row is the document that inspect gives for the same workload."""
    told = document(capsys, LLAMA, QWEN, *WORK)
    assert ids(told) == ["meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-7B-Instruct"]
    assert main(["inspect", LLAMA, *WORK, "--json"]) == 0
    assert told["models"][0] == json.loads(capsys.readouterr().out)
    # the model cards: 8,030,261,248 parameters; 131,072 and 57,344 bytes a token
    assert told["models"][0]["weights"]["parameters"] == 8_030_261_248
    assert [m["kv_cache"]["bytes_per_token"] for m in told["models"]] == [131_072, 57_344]


def test_a_model_that_fails_keeps_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    """In JSON with the parts of the failure, in CSV and Markdown with its sentence, exit 0."""
    told = document(capsys, LLAMA, "./none", QWEN, *WORK)
    sentence = "no such file or folder: ./none"
    assert told["models"][1] == {
        "id": "./none",
        "error": {"code": "not-found", "message": sentence, "hint": None},
    }
    assert main(["compare", LLAMA, "./none", QWEN, *WORK, "-f", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["id"] for row in rows] == [
        *["meta-llama/Llama-3.1-8B"] * 2,
        "./none",
        *["Qwen/Qwen2.5-7B-Instruct"] * 2,
    ]
    assert [row["error"] for row in rows] == ["", "", sentence, "", ""]
    assert [row["gpu"] for row in rows[:2]] == ["a100-80", "rtx4090"]
    for form in ("md", "text"):
        assert main(["compare", LLAMA, "./none", QWEN, *WORK, "-f", form]) == 0
        out, err = capsys.readouterr()
        assert sentence in out
        assert err == ""


def test_markdown_rows_have_as_many_cells_as_the_heading(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A table with a ragged row is no table where it is pasted."""
    assert main(["compare", LLAMA, "./no|ne", DEEPSEEK, *WORK, "-f", "md"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    cells = {line.replace("\\|", "").count("|") for line in lines}
    assert len(lines) == 5
    assert len(cells) == 1
    assert "**30.4 KiB**" in lines[4]  # 31,104 bytes a token against 131,072


def test_the_order_is_as_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """DeepSeek's latent is the smallest cache, Llama's the largest of the three."""
    told = document(capsys, LLAMA, "./none", QWEN, DEEPSEEK, "-c", "1k", "--sort", "kv")
    assert ids(told) == [
        "deepseek-ai/DeepSeek-V2-Lite",
        "Qwen/Qwen2.5-7B-Instruct",
        "meta-llama/Llama-3.1-8B",
        "./none",
    ]


def test_targets_come_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One a line; blank lines and remarks are none; after those of the command line."""
    path = tmp_path / "models.txt"
    path.write_text(f"\ufeff# ours\n\n{QWEN}  # the small one\n  {DEEPSEEK}\n", encoding="utf-8")
    told = document(capsys, LLAMA, "--from", str(path), "-c", "1k")
    assert ids(told) == [
        "meta-llama/Llama-3.1-8B",
        "Qwen/Qwen2.5-7B-Instruct",
        "deepseek-ai/DeepSeek-V2-Lite",
    ]


def test_targets_come_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ls *.hfkv.json | hfkv compare --from -`."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{LLAMA}\n".encode())))
    assert ids(document(capsys, "--from", "-", "-c", "1k")) == ["meta-llama/Llama-3.1-8B"]


def test_variants_follow_their_base(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model itself first, then what is quantized from it, as many as asked for."""
    asked: dict[str, Any] = {}

    def variants(repo: str, **how: Any) -> list[str]:
        asked.update(how, repo=repo)
        return ["a/one-GGUF", "b/one-AWQ"]

    def load(target: str, **_how: Any) -> ModelFiles:
        raise UnreadableError(f"{target} is not here")

    monkeypatch.setattr("hfkv.sources.variants.variants", variants)
    monkeypatch.setattr("hfkv.cli.reading.load", load)
    told = document(capsys, "--variants", "org/one", "--limit", "2", "--token", "t", code=3)
    assert ids(told) == ["org/one", "a/one-GGUF", "b/one-AWQ"]
    assert asked == {"repo": "org/one", "limit": 2, "token": "t", "offline": False, "timeout": 60.0}


def test_when_nothing_can_be_read_the_code_is_the_failures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table is still written, stderr has one line, and the first failure decides."""

    def load(target: str, **_how: Any) -> ModelFiles:
        raise MalformedError("the header lies", where=target)

    monkeypatch.setattr("hfkv.cli.reading.load", load)
    assert main(["compare", "a/b", "c/d"]) == 4
    out, err = capsys.readouterr()
    assert "c/d: the header lies" in out
    assert err == ("hfkv: error: none of them could be read; the first: a/b: the header lies\n")


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ([], 2, "there is nothing to compare\nhint: name models, or give --from or --variants"),
        (["--from", "./none.txt"], 3, "./none.txt: no such file or folder"),
    ],
)
def test_without_targets_there_is_nothing_to_compare(
    args: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, and what to do."""
    assert main(["compare", *args]) == code
    assert capsys.readouterr() == ("", f"hfkv: error: {message}\n")


def test_a_list_that_is_no_text_is_malformed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A binary file by mistake is one sentence."""
    path = tmp_path / "x"
    path.write_bytes(b"ab\xff")
    assert main(["compare", "--from", str(path)]) == 4
    assert capsys.readouterr().err == f"hfkv: error: {path}: not UTF-8 text (byte 2)\n"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140, 200])
def test_no_line_is_wider_than_the_terminal(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Korean and Japanese names are counted double, in every layout; every figure is whole."""
    named = tmp_path / "한국어-모델-日本語モデル.hfkv.json"
    text = Path(LLAMA).read_text(encoding="utf-8")
    named.write_text(
        text.replace("meta-llama/Llama-3.1-8B", "한국어/모델-日本語モデル-8B"), "utf-8"
    )
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["compare", str(named), QWEN, "./none", *WORK]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(cell_len, lines)) <= width
    assert any("한국어/모델-日本語モデル-8B" in line for line in lines)
    assert all(
        any(figure in line for line in lines) for figure in ("4.00 GiB", "1.75 GiB", "131,072")
    )


def test_columns_line_up_under_double_width_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The figures of both rows end in the same column of the screen."""
    named = tmp_path / "x.hfkv.json"
    text = Path(LLAMA).read_text(encoding="utf-8")
    named.write_text(text.replace("meta-llama/Llama-3.1-8B", "한국어/모델"), "utf-8")
    monkeypatch.setenv("COLUMNS", "140")
    assert main(["compare", str(named), LLAMA, "-c", "1k"]) == 0
    ends = {
        cell_len(line[: line.index("15.0 GiB")])
        for line in capsys.readouterr().out.splitlines()
        if "15.0 GiB" in line
    }
    assert len(ends) == 1


def test_the_package_compares_as_the_command_does() -> None:
    """`hfkv.compare` gives reports and failures in rows."""
    answer = hfkv.compare([LLAMA, "./none"], gpu="a100-80", context=32_768)
    first, second = answer.rows
    assert first.report is not None
    assert first.report.kv is not None
    assert first.report.kv.bytes == 131_072 * 32_768
    assert second.error is not None
    assert second.error.code == "not-found"


def test_a_page_holds_every_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`-f html` is one file with each name in it, and the reason of the one that failed."""
    path = tmp_path / "models.html"
    assert main(["compare", LLAMA, "./none", "-c", "1k", "-f", "html", "-o", str(path)]) == 0
    page = path.read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert "<title>2 models compared · hfkv</title>" in page
    assert "meta-llama/Llama-3.1-8B" in page
    assert "no such file or folder: ./none" in page
    assert capsys.readouterr() == ("", "")
