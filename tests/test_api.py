"""The Python interface: the same names, values, sentences and documents as the command line."""

from __future__ import annotations

import inspect as reflection
import json
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import pytest
from hand_made import REPORTS

import hfkv
from hfkv.api.request import NOT_SAID
from hfkv.cli import main
from hfkv.cli.compare import command as compare_command
from hfkv.cli.inspect import command as inspect_command
from hfkv.render.units import clean

MODELS = Path(__file__).parent.parent / "fixtures" / "models"
LLAMA = str(MODELS / "meta-llama--Llama-3.1-8B.hfkv.json")
GEMMA = str(MODELS / "google--gemma-3-27b-it.hfkv.json")

# How something is asked in Python, and at the prompt.
SAME: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"context": 32768, "concurrency": 4}, ["-c", "32k", "-b", "4"]),
    (
        {"context": "32k", "gpu": "h100:4", "tp": 2, "pp": 2},
        ["-c", "32k", "-g", "h100:4", "--tp", "2", "--pp", "2"],
    ),
    (
        {"gpu": ["rtx4090", "24gib"], "seq_lens": [1200, "8k"]},
        ["-g", "rtx4090", "-g", "24gib", "--seq-lens", "1200,8k"],
    ),
    ({"seq_lens": "1200,8k"}, ["--seq-lens", "1200,8k"]),
    (
        {"prompt": "6k", "output_tokens": 512, "beams": 4},
        ["--prompt", "6k", "--output", "512", "--beams", "4"],
    ),
    (
        {"gpu": "a100-80", "utilization": 0.85, "overhead": 2**31, "kv_dtype": "fp8"},
        ["-g", "a100-80", "--utilization", "85%", "--overhead", "2gib", "--kv-dtype", "fp8"],
    ),
    (
        {"gpu": "24gb", "weights_dtype": "int4", "offload": "weights=20%", "cpu_kv": "32gib"},
        ["-g", "24gb", "--weights-dtype", "int4", "--offload", "weights=20%", "--cpu-kv", "32gib"],
    ),
    (
        {
            "engine": "vllm",
            "engine_version": "0.12.0",
            "gpu": "h100:32",
            "max_num_seqs": 64,
            "max_num_batched_tokens": "2048",
            "block_size": 16,
            "enable_prefix_caching": False,
            "disable_hybrid_kv_cache_manager": True,
            "async_scheduling": False,
            "enforce_eager": True,
            "dcp": 2,
            "shared_prefix": 100,
        },
        [
            "--engine",
            "vllm",
            "--engine-version",
            "0.12.0",
            "-g",
            "h100:32",
            "--max-num-seqs",
            "64",
            "--max-num-batched-tokens",
            "2048",
            "--block-size",
            "16",
            "--no-enable-prefix-caching",
            "--disable-hybrid-kv-cache-manager",
            "--no-async-scheduling",
            "--enforce-eager",
            "--dcp",
            "2",
            "--shared-prefix",
            "100",
        ],
    ),
]

WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({"context": "32kb"}, ["--context", "32kb"]),
    ({"context": -1}, ["--context", "-1"]),
    ({"concurrency": 0}, ["--concurrency", "0"]),
    ({"tp": 1.5}, ["--tp", "1.5"]),
    ({"utilization": 1.5}, ["--utilization", "1.5"]),
    ({"overhead": "2"}, ["--overhead", "2"]),
    ({"offload": "20%"}, ["--offload", "20%"]),
    ({"seq_lens": ["a"]}, ["--seq-lens", "a"]),
    ({"timeout": 0}, ["--timeout", "0"]),
    ({"output_tokens": 10}, ["--output-tokens", "10"]),
    ({"gpu": "h900"}, ["--gpu", "h900"]),
    ({"engine": "vlm"}, ["--engine", "vlm"]),
    ({"kv_dtype": "fp7"}, ["--kv-dtype", "fp7"]),
    ({"weights_dtype": "int5"}, ["--weights-dtype", "int5"]),
    ({"block_size": 16}, ["--block-size", "16"]),
    ({"seq_lens": [5], "context": 5}, ["--seq-lens", "5", "--context", "5"]),
    ({"prompt": 5, "context": 9}, ["--prompt", "5", "--context", "9"]),
]


def _named(pair: tuple[dict[str, Any], list[str]]) -> str:
    return " ".join(pair[1]) or "nothing"


@pytest.mark.parametrize("pair", SAME, ids=_named)
@pytest.mark.parametrize("model", [LLAMA, GEMMA], ids=["llama", "gemma"])
def test_a_report_is_what_the_command_writes(
    model: str, pair: tuple[dict[str, Any], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Byte for byte, whatever is asked."""
    options, args = pair
    report = hfkv.inspect(model, **options)
    assert main(["inspect", model, *args, "--json"]) == (5 if report.kv is None else 0)
    written = capsys.readouterr().out
    assert report.to_json() == written
    assert report.to_dict() == json.loads(written)


def test_a_report_of_every_fixture_is_what_the_command_writes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every model there is, and print() is the text without colour, 80 columns wide."""
    paths = sorted(MODELS.glob("*.hfkv.json"))
    assert len(paths) >= 44
    for path in paths:
        report = hfkv.inspect(path, gpu="a100-80", context="4k")
        main(["inspect", str(path), "-g", "a100-80", "-c", "4k", "--json"])
        assert report.to_json() == capsys.readouterr().out
    main(["inspect", str(path), "-g", "a100-80", "-c", "4k", "--no-color"])
    assert f"{report}\n" == capsys.readouterr().out


def test_a_comparison_is_what_the_command_writes(capsys: pytest.CaptureFixture[str]) -> None:
    """With a row that failed, sorted, and as text."""
    answer = hfkv.compare([LLAMA, Path(GEMMA), "./none"], gpu="h100", context="32k", sort="kv")
    args = ["compare", LLAMA, GEMMA, "./none", "-g", "h100", "-c", "32k", "--sort", "kv"]
    assert main([*args, "--json"]) == 0
    written = capsys.readouterr().out
    assert answer.to_json() == written
    assert answer.to_dict() == json.loads(written)
    main([*args, "--no-color"])
    assert f"{answer}\n" == capsys.readouterr().out
    assert repr(answer) == "<Comparison of 3 models at 32,768 tokens × 1 sequence>"
    assert [row.report is None for row in answer.rows] == [False, False, True]
    first = answer.rows[0].report
    assert isinstance(first, hfkv.Report)
    assert first.to_dict() == answer.to_dict()["models"][0]


def test_one_model_is_compared_with_none() -> None:
    """A text is a target, and not a list of letters."""
    assert [row.id for row in hfkv.compare(LLAMA).rows] == ["meta-llama/Llama-3.1-8B"]
    assert [row.id for row in hfkv.compare(Path(LLAMA)).rows] == ["meta-llama/Llama-3.1-8B"]


@pytest.mark.parametrize("pair", WRONG, ids=_named)
def test_what_means_nothing_gets_the_same_sentence(
    pair: tuple[dict[str, Any], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """A UsageError says what the command says, before the model is looked for."""
    options, args = pair
    with pytest.raises(hfkv.UsageError) as caught:
        hfkv.inspect("./none", **options)
    assert main(["inspect", "./none", *args]) == 2
    told = capsys.readouterr().err
    assert caught.value.what in told
    if caught.value.where is not None:
        assert caught.value.where == next(iter(options))


NOT_THESE: list[tuple[dict[str, Any], str]] = [
    ({"gpu": 3}, "gpu: text is expected, not int"),
    ({"gpu": ["h100", None]}, "gpu: text is expected, not NoneType"),
    ({"kv_dtype": 8}, "kv_dtype: text is expected, not int"),
    ({"weights_dtype": 4}, "weights_dtype: text is expected, not int"),
    ({"engine": 3}, "engine: text is expected, not int"),
    ({"engine": "vllm", "engine_version": 0.9}, "engine_version: text is expected, not float"),
    ({"revision": 3}, "revision: text is expected, not int"),
    ({"token": b"secret"}, "token: text is expected, not bytes"),
    ({"config": 5}, "config: text or a path is expected, not int"),
    ({"offline": "yes"}, "offline: True or False is expected, not str"),
    ({"context": []}, "context: '[]' is not a number of tokens such as 8192 or 32k, or max"),
    ({"overhead": -1}, "overhead: '-1' is not a size such as 2gib (2^30) or 2gb (10^9)"),
]


@pytest.mark.parametrize(("options", "said"), NOT_THESE, ids=[str(one) for one, _ in NOT_THESE])
def test_a_value_of_a_wrong_kind_is_told(options: dict[str, Any], said: str) -> None:
    """A sentence that names the option, for what no command line can be given."""
    with pytest.raises(hfkv.UsageError) as caught:
        hfkv.inspect("./none", **options)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("inspect", (3,), "target: text or a path is expected, not int"),
        ("inspect", (b"org/name",), "target: text or a path is expected, not bytes"),
        ("load", (None,), "target: text or a path is expected, not NoneType"),
        ("compare", ([LLAMA, 5],), "target: text or a path is expected, not int"),
        ("compare", (None,), "targets: a list is expected, not NoneType"),
        ("load_many", (5,), "targets: a list is expected, not int"),
        ("analyze", (LLAMA,), "analyze: a model's files are expected, not str"),
        ("analyze", (hfkv.load(LLAMA), {}), "analyze: a workload is expected, not dict"),
    ],
)
def test_what_is_no_target_is_told(name: str, args: tuple[Any, ...], said: str) -> None:
    """A sentence, and not an attribute that something deep inside lacks."""
    with pytest.raises(hfkv.UsageError) as caught:
        next(iter(getattr(hfkv, name)(*args)))
    assert str(caught.value) == said


@pytest.mark.parametrize("one", [LLAMA, Path(LLAMA), [LLAMA], [Path(LLAMA)]], ids=repr)
def test_targets_are_texts_and_paths(one: Any) -> None:
    """Wherever a target is taken, and one alone is not read letter by letter."""
    ((target, files),) = hfkv.load_many(one)
    assert target == LLAMA
    assert isinstance(files, hfkv.ModelFiles)
    assert files == hfkv.load(Path(LLAMA))


def test_what_cannot_be_read_is_an_error_of_its_kind(tmp_path: Path) -> None:
    """What the command exits with 3 and 4 for is UnreadableError and MalformedError."""
    with pytest.raises(hfkv.UnreadableError):
        hfkv.inspect("./none")
    broken = tmp_path / "config.json"
    broken.write_text("{")
    with pytest.raises(hfkv.MalformedError):
        hfkv.inspect(broken)


def _options(command: click.Command) -> dict[str, Any]:
    """Return what a command is given when nothing but a target is said."""
    params = command.make_context("command", ["./none"]).params
    return {name: value for name, value in params.items() if name not in {"target", "targets"}}


TOLD = {"as_json", "explain", "fail_if_not_fit", "no_color", "no_progress", "output_format"}
TOLD |= {"output_path", "quiet", "speed", "verbose"}


@pytest.mark.parametrize(
    ("function", "command", "renamed"),
    [
        (hfkv.inspect, inspect_command, {"config_path": "config"}),
        (hfkv.compare, compare_command, {}),
    ],
    ids=["inspect", "compare"],
)
def test_every_option_of_the_command_is_a_keyword(
    function: Callable[..., Any], command: click.Command, renamed: dict[str, str]
) -> None:
    """All but those that say how it is told; with the same default, seen by help() too."""
    lists = {"listed_in", "variants", "limit"}  # of compare: Python has lists of its own
    of_command = {
        renamed.get(name, name): default
        for name, default in _options(command).items()
        if name not in TOLD | lists
    }
    keywords = {
        name: parameter.default
        for name, parameter in reflection.signature(function).parameters.items()
        if parameter.kind is reflection.Parameter.KEYWORD_ONLY
    }
    assert keywords == of_command
    assert keywords.items() >= NOT_SAID.items()


def test_none_is_as_if_nothing_had_been_said() -> None:
    """For every option, also those whose default is a word or a number."""
    names = reflection.signature(hfkv.inspect).parameters.keys() - {"target"}
    options: dict[str, Any] = dict.fromkeys(names)
    assert hfkv.inspect(LLAMA, **options) == hfkv.inspect(LLAMA)


def test_a_keyword_that_does_not_exist_is_refused() -> None:
    """As Python refuses one, before anything is read."""
    with pytest.raises(TypeError, match=r"^inspect\(\) got an unexpected keyword argument 'gpus'$"):
        hfkv.inspect("./none", gpus="h100")  # type: ignore[call-arg]


def test_a_workload_is_made_of_the_same_words() -> None:
    """For analyze(); a share that is a float is exact."""
    work = hfkv.workload(gpu="a100-80", utilization=0.9, context="1m", overhead="1gb")
    assert work.deployment.utilization == Fraction(9, 10)
    assert work.deployment.overhead_bytes == 10**9
    assert work.context == 2**20
    files = hfkv.load(LLAMA)
    assert hfkv.analyze(files, work) == hfkv.inspect(
        LLAMA, gpu="a100-80", utilization=0.9, context="1m", overhead="1gb"
    )
    assert hfkv.analyze(files) == hfkv.inspect(LLAMA)


def test_a_report_is_plain_data() -> None:
    """It can be compared, pickled, changed into another, and not changed itself."""
    report = hfkv.inspect(LLAMA, gpu="a100-80")
    again = pickle.loads(pickle.dumps(report))  # noqa: S301  our own
    assert again == report
    assert type(again) is hfkv.Report
    assert isinstance(replace(report, findings=()), hfkv.Report)
    with pytest.raises(FrozenInstanceError):
        report.findings = ()  # type: ignore[misc]
    assert repr(report) == (
        "<Report meta-llama/Llama-3.1-8B: Fits on A100 80GB SXM4: 131,072 tokens × 1 sequence. "
        "Room for 3 such sequences.>"
    )


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_of_every_shape_can_tell_itself(name: str) -> None:
    """In one line, in text and as a document, whatever is not known."""
    report = hfkv.Report.of(REPORTS[name])
    assert repr(report).startswith(f"<Report {clean(report.files.target.id)}: ")
    assert "\n" not in repr(report)
    assert "\x1b" not in str(report)
    assert json.loads(json.dumps(report.to_dict())) == report.to_dict()
