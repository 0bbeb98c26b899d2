"""`hfkv scan`: a line for every model, whatever happens to the others or to the scan."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hub_models import GATED
from hub_server import HubServer, weights

from hfkv.cli import main

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 128,
    "vocab_size": 100,
    "torch_dtype": "bfloat16",
}
MODEL = {"config.json": LLAMA, "model.safetensors": weights(("w", "BF16", (2, 2), 8))}


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the documents in a file of lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def models(hub_server: HubServer, tmp_path: Path) -> Path:
    """Put three models on the Hub; return a file that lists them and one that is not there."""
    for number in range(3):
        hub_server.add(f"org/m{number}", MODEL)
    path = tmp_path / "models.txt"
    path.write_text("# ours\norg/m0\norg/m1  # the best\n\norg/gone\norg/m2\norg/m0\n")
    return path


def test_a_line_for_each_as_inspect_would_write_it(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each model once, with its name as it was asked for; a failure is a line too."""
    out = tmp_path / "out.jsonl"
    assert main(["scan", "--from", str(models), "-o", str(out), "-c", "64"]) == 0
    assert capsys.readouterr() == ("", "hfkv: 4 models, 1 of them could not be read\n")
    found = {line.pop("id"): line for line in lines(out)}
    assert set(found) == {"org/m0", "org/m1", "org/m2", "org/gone"}
    assert found["org/gone"]["schema"] == "hfkv.error/1"
    assert found["org/gone"]["error"]["code"] == "not-found"
    # 2 layers x 2 (K and V) x 2 heads x 16 wide x 2 bytes x 64 tokens
    assert found["org/m0"]["kv_cache"]["bytes"] == 16_384
    assert main(["inspect", "org/m0", "-c", "64", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found["org/m0"]


def test_without_a_file_lines_go_to_standard_output(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One document a line, for `| jq`."""
    assert main(["scan", "--from", str(models), "--limit", "2", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert {json.loads(line)["id"] for line in out.splitlines()} == {"org/m0", "org/m1"}
    assert err == ""


def test_it_goes_on_where_it_was(
    models: Path, hub_server: HubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A scan that was killed in the middle of a line reads what is missing, and nothing else."""
    out = tmp_path / "out.jsonl"
    main(["scan", "--from", str(models), "-o", str(out)])
    whole = lines(out)
    kept = [json.dumps(line) + "\n" for line in whole if line["id"] in {"org/m1", "org/gone"}]
    out.write_text("".join(kept) + '{"id": "org/m0", "sch')
    capsys.readouterr()
    hub_server.forget()
    assert main(["scan", "--from", str(models), "-o", str(out)]) == 0
    assert capsys.readouterr().err == (
        f"hfkv: 2 models in {out} already\nhfkv: 2 models, 0 of them could not be read\n"
    )
    assert sorted(lines(out), key=str) == sorted(whole, key=str)
    assert not any("m1" in path or "gone" in path for path in hub_server.paths())


def test_what_failed_on_the_way_is_tried_again(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network that was down says nothing of a model."""
    out = tmp_path / "out.jsonl"
    with monkeypatch.context() as patch:
        patch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
        patch.setattr("hfkv.sources.http.random.uniform", lambda *_: 0.001)
        assert main(["scan", "--from", str(models), "-o", str(out)]) == 3
    assert {line["error"]["code"] for line in lines(out)} == {"connection"}
    assert main(["scan", "--from", str(models), "-o", str(out)]) == 0
    assert len(lines(out)) == 8
    assert main(["scan", "--from", str(models), "-o", str(out)]) == 0
    assert len(lines(out)) == 8


@pytest.mark.usefixtures("models")
def test_all_of_an_author(hub_server: HubServer, tmp_path: Path) -> None:
    """The Hub's own list says which; --limit says how many."""
    hub_server.add("other/x", MODEL)
    hub_server.page = 2
    out = tmp_path / "out.jsonl"
    assert main(["scan", "--author", "org", "-o", str(out)]) == 0
    assert {line["id"] for line in lines(out)} == {"org/m0", "org/m1", "org/m2"}
    few = tmp_path / "few.jsonl"
    assert main(["scan", "--author", "org", "--limit", "2", "-o", str(few)]) == 0
    assert {line["id"] for line in lines(few)} == {"org/m0", "org/m1"}


def test_one_bug_does_not_end_a_scan(
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The line says so, and the exit code too."""

    def crash(*_: Any) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("hfkv.cli.scan.analyze", crash)
    out = tmp_path / "out.jsonl"
    assert main(["scan", "--from", str(models), "-o", str(out)]) == 70
    assert {line["error"]["code"] for line in lines(out)} == {"bug", "not-found"}
    assert capsys.readouterr().err == (
        "hfkv: error: 3 of 4 met a bug in hfkv: see the lines with it\n"
    )


def test_a_list_that_cannot_be_had_is_a_failure(
    hub_server: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a list there is nothing to do."""
    hub_server.fault("/api/models", "status", status=418)
    assert main(["scan", "--author", "org"]) == 3
    host = hub_server.endpoint.removeprefix("http://")
    assert capsys.readouterr().err == f"hfkv: error: {host} answers 418\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("hello\n", "it holds lines that no scan has written"),
        ('{"id": [1]}\n5\n', "it holds lines that no scan has written"),
        ('{"schema": "x"}\n', "it holds lines that no scan has written"),
        ('{"id": "a/b", "error": {"code": []}}\n', "it holds lines that no scan has written"),
        ('{"id": "a/b", "likes": 5}\n', "it holds lines that no scan has written"),
        ('{"id":"a/b","likes":5}', "it holds lines that no scan has written"),
        ("a note without an end", "it holds lines that no scan has written"),
        ('{"schema": "x"}', "it holds lines that no scan has written"),
    ],
)
def test_a_file_of_something_else_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    """Nothing is added to a file that is no scan's."""
    out = tmp_path / "out.jsonl"
    out.write_text(content)
    assert main(["scan", "a/b", "-o", str(out)]) == 2
    assert capsys.readouterr().err.startswith(f"hfkv: error: {out}: {message}\n")
    assert out.read_text() == content


WHOLE = '{"id":"org/m0","schema":"hfkv.inspect/1"}'


@pytest.mark.parametrize("tail", ["{", '{"id', '{"id":"org/m1","schema":"hf', WHOLE])
def test_a_line_that_was_cut_off_is_taken_out(models: Path, tmp_path: Path, tail: str) -> None:
    """Wherever a scan was killed, what it left of a line is known as its own."""
    out = tmp_path / "out.jsonl"
    out.write_text(f"{WHOLE}\n{tail}")
    assert main(["scan", "--from", str(models), "-o", str(out)]) == 0
    assert sorted(line["id"] for line in lines(out)) == ["org/gone", "org/m0", "org/m1", "org/m2"]


def test_a_line_is_written_to_its_end(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system may take a part of what it is given, and say how much."""

    class Reluctant(io.FileIO):
        def write(self, data: Any) -> int:
            return super().write(data[:1000])

    whole = Path.open

    def opened(path: Path, mode: str = "r", buffering: int = -1, **how: Any) -> Any:
        return Reluctant(path, "a") if buffering == 0 else whole(path, mode, buffering, **how)

    monkeypatch.setattr(Path, "open", opened)
    out = tmp_path / "out.jsonl"
    assert main(["scan", "--from", str(models), "-o", str(out)]) == 0
    assert {line["id"] for line in lines(out)} == {"org/m0", "org/m1", "org/m2", "org/gone"}
    assert out.stat().st_size > 4000


@pytest.mark.parametrize("argv", [[], ["--filter", ""], ["--author", ""]])
def test_nothing_to_scan(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Neither names nor a list of them; an empty tag is no wish for the whole Hub."""
    assert main(["scan", *argv]) == 2
    assert capsys.readouterr().err == (
        "hfkv: error: there is nothing to scan\n"
        "hint: name models, or give --from, --author or --filter\n"
    )


def test_a_full_disk_is_a_sentence(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What could not be written is told at the first line."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    assert main(["scan", "--from", str(models), "-o", "/dev/full"]) == 2
    assert capsys.readouterr().err == "hfkv: error: /dev/full: no space left on the disk\n"


def test_interrupted(
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Ctrl-C keeps the lines that are there."""
    calls: list[str] = []

    def dumps(line: dict[str, Any]) -> str:
        calls.append(line["id"])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return json.dumps(line) + "\n"

    monkeypatch.setattr("hfkv.cli.scan.dumps_line", dumps)
    out = tmp_path / "out.jsonl"
    assert main(["scan", "--from", str(models), "-o", str(out)]) == 130
    assert [line["id"] for line in lines(out)] == calls[:2]
    assert capsys.readouterr().err == "hfkv: interrupted\n"


def test_offline(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is kept can be scanned without a network."""
    main(["scan", "--from", str(models), "-q"])
    first = {json.loads(line)["id"]: line for line in capsys.readouterr().out.splitlines()}
    assert main(["scan", "--from", str(models), "-q", "--offline"]) == 0
    again = {json.loads(line)["id"]: line for line in capsys.readouterr().out.splitlines()}
    assert json.loads(again.pop("org/gone"))["error"]["code"] == "offline"
    first.pop("org/gone")
    assert again == first
    assert tmp_path.exists()


def test_public_metadata_of_gated_models(
    hub_server: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A closed gate gives the weights, and no cache."""
    hub_server.add("org/gated", GATED, gated="auto")
    assert main(["scan", "org/gated", "-q"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["weights"]["source"] == "file-sizes"
    assert line["kv_cache"] is None
