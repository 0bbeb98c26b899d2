"""What a tester's hostile surroundings found: each is a sentence now, never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hub_server import weights

from hfkv.cli import main
from hfkv.core.engines.sglang_share import mem_fraction_static
from hfkv.core.files import ModelFiles, Problem, Target
from hfkv.core.gpus import parse_gpu
from hfkv.core.report import analyze
from hfkv.core.workload import Deployment, Workload
from hfkv.errors import MalformedError, UsageError
from hfkv.sources import load
from hfkv.sources.environment import find_token
from hfkv.sources.targets import parse

MODEL = Path(__file__).parent.parent / "fixtures" / "models" / "Qwen--Qwen3-0.6B.hfkv.json"
SIZES = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}


def command(shell: str) -> subprocess.CompletedProcess[str]:
    """Run a shell line in which `hfkv` is this package."""
    line = shell.replace("hfkv ", f"{sys.executable} -m hfkv ")
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)


def files(*problems: Problem, **config: object) -> ModelFiles:
    """Return a llama's files with some keys and problems."""
    return ModelFiles(
        target=Target(kind="file", id="x"),
        config={"model_type": "llama", **SIZES, **config},
        problems=problems,
    )


@pytest.mark.parametrize("closing", [">&-", "2>&-", "<&-"])
def test_closed_streams_do_not_matter(closing: str) -> None:
    """A daemon's closed stdout or stderr changes no exit code."""
    done = command(f"hfkv inspect {MODEL} {closing}")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments", ["--help", f"inspect {MODEL} --json", "inspect nope.json --json"]
)
def test_a_full_disk_behind_stdout_is_a_sentence(arguments: str) -> None:
    """/dev/full takes nothing: one line on stderr, and no talk of a bug."""
    done = command(f"hfkv {arguments} >/dev/full")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "No space left on device" in done.stderr


def test_missing_shards_leave_the_fit_open() -> None:
    """One shard of thirty does not fit a 70B model onto 24 GiB."""
    whole = load(str(MODEL))
    part = whole.with_problems(Problem(code="missing-shard", message="29 files are missing"))
    deployment = Deployment(gpus=parse_gpu("24gib"))
    (fit,) = analyze(part, Workload(context=1024, deployment=deployment)).fit
    assert fit.fits is None
    assert fit.weights_bytes_per_gpu is None


def test_a_part_of_the_weights_is_called_a_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is there is counted; no answer takes it for the whole, and none calls it smallest."""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **SIZES}))
    one = weights(("a", "BF16", (3,), 6))
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(one.part(0, one.size))
    index = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": index}), encoding="utf-8")
    assert main(["inspect", str(tmp_path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["weights"]["bytes"] == 6
    assert report["weights"]["complete"] is False
    assert main(["inspect", str(tmp_path)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "at least 3 parameters" in text
    assert "beside weights of which a part is missing" in text
    assert "weights a part, for files are missing" in text
    assert main(["compare", str(tmp_path), str(MODEL), "--context", "1k"]) == 0
    assert "≥ 6 B " in capsys.readouterr().out


@pytest.mark.parametrize("command", ["scan", "compare"])
def test_an_address_is_shown_without_its_secrets(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The row of a target that is refused names it, but not the password that was in it."""
    address = "http://me:hf_secret@127.0.0.1:9/org/x?token=hf_secret"
    assert main([command, address, *(["--json"] if command == "compare" else [])]) != 0
    out, err = capsys.readouterr()
    assert "http://127.0.0.1:9/org/x" in out
    assert "hf_secret" not in out + err


def test_an_unknown_fit_is_not_called_a_misfit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lone config has no weights: --fail-if-not-fit fails, for the reason that is true."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "llama", **SIZES}), encoding="utf-8")
    assert main(["inspect", str(path), "-g", "24gib", "--fail-if-not-fit", "--quiet"]) == 1
    assert capsys.readouterr().err == (
        "hfkv: error: whether it fits is not known: the whole weights were not read\n"
    )


@pytest.mark.parametrize("key", ["num_hidden_layers", "hidden_size", "num_key_value_heads"])
def test_zero_is_not_a_size(key: str) -> None:
    """A zero is told, not read as absent."""
    with pytest.raises(MalformedError) as error:
        analyze(files(**{key: 0}))
    assert str(error.value) == f"config.json: {key}: 0 is not a size"


def test_what_is_unknown_shows_no_class_default() -> None:
    """A gate that shows only the model_type says nothing about the context."""
    bare = ModelFiles(
        target=Target(kind="hub", id="a/b"), config={"model_type": "llama", "layer_types": ["?"]}
    )
    arch = analyze(bare).architecture
    assert (arch.max_context, arch.hidden_size) == (None, None)


def test_sglang_on_a_small_card_has_nothing_not_less() -> None:
    """512 + 24,576 MiB and graphs on a 4 GiB card: a share of zero."""
    assert mem_fraction_static(4096, tp=1, chunk=16384) == 0
    deployment = Deployment(gpus=parse_gpu("4gb"), max_num_batched_tokens=16384)
    work = Workload(context=1024, engine="sglang", deployment=deployment)
    (fit,) = analyze(load(str(MODEL)), work).fit
    assert fit.fits is False
    assert fit.budget_bytes >= 0


def test_more_stages_than_gpus_are_refused() -> None:
    """--pp 4 on one GPU names what it would take."""
    deployment = Deployment(gpus=parse_gpu("h100"), pipeline_parallel_size=4)
    with pytest.raises(UsageError) as error:
        analyze(load(str(MODEL)), Workload(context=1024, deployment=deployment))
    assert str(error.value) == "--pp 4 needs 4 GPUs, and there is 1 x h100-80"


def test_a_login_that_cannot_be_read_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Public models need no token: a broken or hidden token file stops nothing."""
    monkeypatch.delenv("HF_TOKEN", raising=False)
    (tmp_path / "token").write_bytes(b"\xff\xfe\x00bad")
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "token"))
    assert find_token() is None
    monkeypatch.setenv("HF_TOKEN_PATH", "~nobody-of-this-name/token")
    assert find_token() is None


def test_an_address_never_echoes_what_stands_before_its_host() -> None:
    """User, password and query of a pasted address stay out of the message."""
    with pytest.raises(UsageError) as error:
        parse(
            "https://me:hf_SeCrEt@elsewhere.example/o/x?token=hf_SeCrEt",
            revision=None,
            endpoint="https://huggingface.co",
        )
    assert "SeCrEt" not in error.value.message
    assert "https://elsewhere.example/o/x is not an address" in error.value.message


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_a_home_of_somebody_else_is_a_sentence(tmp_path: Path) -> None:
    """HF_HOME in a folder that this user may not enter, as in many containers."""
    hidden = tmp_path / "hidden"
    (hidden / "hub").mkdir(parents=True)
    hidden.chmod(0o700)
    tmp_path.chmod(0o755)
    script = (
        "import os, sys, json\n"
        "sys.path.insert(0, os.getcwd())\n"
        "from hfkv.cli import main\n"
        "arguments = ['inspect', 'o/x', '--offline', '--json', '-o', os.devnull]\n"
        "main(arguments)  # loads what the other user may not read\n"
        "os.setuid(65534)\n"
        "sys.exit(main(arguments[:4]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HF_HOME": str(hidden), "HFKV_CACHE": str(hidden / "mine")},
    )
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert "offline, and " in done.stderr
