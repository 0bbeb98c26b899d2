"""`hfkv inspect`: its options, its answers, and where they go."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

import hfkv
from hfkv.cli import main
from hfkv.core.files import ModelFiles, RepoFile, Target

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "max_position_embeddings": 131072,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}


def files(config: dict[str, Any] | None = None) -> ModelFiles:
    """Return a model that is a config alone."""
    target = Target(kind="file", id="config.json")
    listed = (RepoFile(path="config.json", size=855),)
    return ModelFiles(target=target, files=listed, config=LLAMA if config is None else config)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Make every target read as Llama-3.1-8B's config, and return how it was asked for."""
    asked: dict[str, Any] = {}

    def load(target: str, **how: Any) -> ModelFiles:
        asked.update(how, target=target)
        return files()

    monkeypatch.setattr("hfkv.cli.reading.load", load)
    return asked


def test_the_source_options_reach_the_source(model: dict[str, Any]) -> None:
    """What says where to read from is handed on as it is."""
    argv = "inspect a/b --revision v2 --token t --offline --timeout 5 --config c.json --json"
    assert main(argv.split()) == 0
    assert {key: model[key] for key in model if key not in {"progress", "meanwhile"}} == {
        "target": "a/b",
        "revision": "v2",
        "token": "t",
        "offline": True,
        "timeout": 5.0,
        "config_path": "c.json",
        "deep": False,
    }


@pytest.mark.parametrize(
    ("argv", "nbytes"),
    [
        ([], 131_072 * 131_072),
        (["-c", "32k", "-b", "4"], 131_072 * 32_768 * 4),
        (["--max-model-len", "8192", "--batch-size", "2"], 131_072 * 8192 * 2),
        (["--ctx", "8k", "--batch", "2", "--kv-cache-dtype", "fp8"], 65_536 * 8192 * 2),
        (["--seq-lens", "1200,8k,32k"], 131_072 * (1200 + 8192 + 32_768)),
    ],
)
@pytest.mark.usefixtures("model")
def test_the_work_options_size_the_cache(
    argv: list[str], nbytes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Llama-3.1-8B keeps 2 x 32 x 8 x 128 x 2 = 131,072 bytes per token in bf16."""
    assert main(["inspect", "x", "--json", *argv]) == 0
    assert json.loads(capsys.readouterr().out)["kv_cache"]["bytes"] == nbytes


@pytest.mark.usefixtures("model")
def test_the_gpu_options_size_the_pool(capsys: pytest.CaptureFixture[str]) -> None:
    """24 GiB x 0.5 - 2 GiB leaves 10 GiB, which is 10 sequences of 8,192 tokens."""
    argv = "inspect x --json -c 8k -g 24gib --utilization 50% --overhead 2gib -g h100:4 --tp 2"
    assert main(argv.split()) == 2  # tp x pp must be the number of GPUs
    capsys.readouterr()
    argv = "inspect x --json -c 8k -g 24gib -g 24gib:2 --utilization 50% --overhead 2gib"
    assert main(argv.split()) == 0
    one, two = json.loads(capsys.readouterr().out)["fit"]
    assert (one["kv_pool_bytes_per_gpu"], one["max_sequences"]) == (10 * 2**30, 10)
    assert (two["count"], two["tensor_parallel_size"], two["max_sequences"]) == (2, 2, 20)
    assert one["utilization"] == 0.5


@pytest.mark.usefixtures("model")
def test_not_fitting_is_exit_1_only_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """16 GiB of cache does not go into 8 GB."""
    assert main(["inspect", "x", "-g", "8gb"]) == 0
    assert main(["inspect", "x", "-g", "8gb", "--fail-if-not-fit"]) == 1
    assert capsys.readouterr().err == "hfkv: error: it does not fit on any GPU that was given\n"


def test_what_cannot_be_sized_is_exit_5_with_what_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report is printed with null where the cache would be, and stderr says why."""
    monkeypatch.setattr("hfkv.cli.reading.load", lambda *_a, **_k: files({"model_type": "alien"}))
    assert main(["inspect", "x", "--json"]) == 5
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert (document["kv_cache"], document["architecture"]["confidence"]) == (None, "unknown")
    assert err.startswith("hfkv: error: the cache of config.json cannot be sized: ")
    assert err.count("\n") == 1


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("form", ["text", "json", "md", "csv"])
def test_output_goes_to_a_file_whole(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """-o replaces the file in one step, leaves nothing beside it, and stdout is silent."""
    path = tmp_path / "answer"
    path.write_text("old")
    assert main(["inspect", "x", "-f", form, "-o", str(path)]) == 0
    written = path.read_text()
    assert "LlamaForCausalLM" in written
    assert "\x1b" not in written
    assert capsys.readouterr().out == ""
    assert [entry.name for entry in tmp_path.iterdir()] == ["answer"]


@pytest.mark.usefixtures("model")
def test_a_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The old file stays, the new one is taken away, and one sentence says why."""
    path = tmp_path / "answer.json"
    path.write_text("old")

    def full(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.chmod", full)
    assert main(["inspect", "x", "-f", "json", "-o", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"hfkv: error: {path}: cannot be written: No space left on device\n"
        "hint: free some space, or write elsewhere with --output FILE\n"
    )
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["answer.json"]


def test_the_package_answers_as_the_command_does() -> None:
    """`hfkv.inspect` reads and sizes: the model card's 8,030,261,248 parameters in bf16."""
    path = Path(__file__).parent.parent / "fixtures/models/meta-llama--Llama-3.1-8B.hfkv.json"
    report = hfkv.inspect(str(path), gpu="a100-80", context=131_072)
    assert report.weights is not None
    assert report.kv is not None
    assert (report.weights.parameters, report.weights.bytes) == (8_030_261_248, 16_060_522_496)
    assert (report.kv.bytes_per_token, report.kv.bytes) == (131_072, 17_179_869_184)
    assert [fit.gpu for fit in report.fit] == ["a100-80"]
    smaller = hfkv.inspect(str(path), gpu="rtx4090", context=8192, weights_dtype="int4")
    assert smaller.fit[0].weights_bytes_per_gpu == 5_727_854_592


@pytest.mark.usefixtures("model")
def test_this_machine_is_one_of_the_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--gpu auto` asks the machine, beside whatever else is named."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text('#!/bin/sh\necho "NVIDIA L4, 23034, 9000"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["inspect", "x", "--json", "-g", "auto", "-g", "h200"]) == 0
    fits = json.loads(capsys.readouterr().out)["fit"]
    assert [fit["gpu"] for fit in fits] == ["l4", "h200"]
    assert [fit["free_bytes"] for fit in fits] == [9000 * 2**20, None]
    assert main(["inspect", "x", "-c", "8k", "-g", "auto"]) == 0
    assert "\n  Only 8.79 GiB are free now: others use the rest.\n" in capsys.readouterr().out


@pytest.mark.usefixtures("model")
def test_a_page_is_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    """`-f html` goes to standard output like any other format."""
    assert main(["inspect", "x", "-c", "8k", "-f", "html"]) == 0
    page = capsys.readouterr().out
    assert page.lower().startswith("<!doctype html>")
    assert "<title>config.json · hfkv</title>" in page
    assert page.rstrip().endswith("</html>")


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "free some space, or write elsewhere with --output FILE"),
        (errno.EDQUOT, "free some space, or write elsewhere with --output FILE"),
        (errno.EACCES, "choose a folder that you may write to"),
        (errno.EROFS, "choose a folder that you may write to"),
        (errno.EIO, "write elsewhere with --output FILE, or to standard output without it"),
    ],
)
def test_what_to_do_about_a_disk_that_refuses(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    hint: str,
) -> None:
    """Exit code 2, a sentence, a hint, and no part of a file."""

    def refuse(*_args: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.fsync", refuse)
    assert main(["inspect", "x", "-o", str(tmp_path / "answer")]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"hint: {hint}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.usefixtures("model")
def test_a_full_device_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """A device is written to as it is, and may be full too."""
    assert main(["inspect", "x", "-o", "/dev/full"]) == 2
    assert capsys.readouterr().err == (
        "hfkv: error: /dev/full: cannot be written: No space left on device\n"
        "hint: free some space, or write elsewhere with --output FILE\n"
    )
