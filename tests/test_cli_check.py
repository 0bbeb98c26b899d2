"""`hfkv check`: exit codes, formats for CI, and what GitHub shows beside a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from rich.cells import cell_len

from hfkv.cli import main
from hfkv.core.checks import CHECKS, Case, Check, Status, Surroundings, Verdicts
from hfkv.core.files import ModelFiles
from hfkv.errors import MalformedError, UnreadableError, UnsupportedError
from hfkv.render.check import check_markdown, github_annotations
from hfkv.render.junit import check_junit

MODELS = Path(__file__).parent.parent / "fixtures" / "models"
LLAMA = str(MODELS / "meta-llama--Llama-3.1-8B.hfkv.json")
SKIP = ["--skip", "tokenizer", "--skip", "disk", "--skip", "cached"]


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def document(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> dict[str, Any]:
    """Return what a check says in JSON."""
    assert main(["check", *args, "--json"]) == code
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def statuses(told: dict[str, Any]) -> dict[str, str]:
    """Return the status of each check by its id."""
    return {check["id"]: check["status"] for check in told["checks"]}


def test_a_model_that_passes_is_exit_0(capsys: pytest.CaptureFixture[str]) -> None:
    """Llama-3.1-8B in 14.99 GiB, 4 GiB of cache and 2 GiB of overhead on a 24 GiB card."""
    args = ["-g", "24gib", "-c", "32k", "--overhead", "2gib", "--engine", "vllm", *SKIP]
    told = document(capsys, LLAMA, *args)
    assert told["passed"] is True
    assert list(statuses(told)) == list(CHECKS)
    assert statuses(told)["fits"] == statuses(told)["complete"] == "pass"
    assert told["report"]["weights"]["bytes"] == 16_060_522_496
    fits = next(check for check in told["checks"] if check["id"] == "fits")
    positions = 131_072 * 128 * 2
    free = 24 * 2**30 * 92 // 100 - 16_060_522_496 - positions - 6 * 2**30
    assert fits["bytes"] == {"free": free}


def test_a_model_that_does_not_pass_is_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    """The failed checks are named on stderr, whatever goes to stdout."""
    args = ["check", LLAMA, "-g", "8gib", *SKIP, "--allow-license", "mit"]
    assert main([*args, "-f", "csv"]) == 1
    out, err = capsys.readouterr()
    assert err == "hfkv: error: not passed: license, fits\n"
    assert out.splitlines()[0] == "target,check,status,message,hint"
    assert len(out.splitlines()) == 1 + len(CHECKS)


def test_warnings_count_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """The fixture names no license and no commit: two warnings."""
    told = document(capsys, LLAMA, *SKIP)
    assert told["passed"] is True
    assert [name for name, status in statuses(told).items() if status == "warn"] == [
        "pinned",
        "license",
    ]
    strict = document(capsys, LLAMA, *SKIP, "--fail-on", "warn", code=1)
    assert strict["passed"] is False
    assert statuses(strict) == statuses(told)


def test_skipped_checks_cannot_fail(capsys: pytest.CaptureFixture[str]) -> None:
    """--skip keeps the check in the list and takes its say."""
    told = document(capsys, LLAMA, "-g", "8gib", *SKIP, "--skip", "fits")
    assert statuses(told)["fits"] == "skipped"


def test_an_unknown_check_is_refused_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A typo must not cost a download; the known ids are the hint."""
    monkeypatch.setattr("hfkv.cli.reading.load", lambda *_a, **_k: pytest.fail("it was read"))
    assert main(["check", "org/name", "--skip", "fit"]) == 2
    assert capsys.readouterr().err == (
        f"hfkv: error: there is no check 'fit'\nhint: known: {', '.join(CHECKS)}\n"
    )


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        (UnreadableError("org/name is gated", hint="ask for it"), "reachable"),
        (MalformedError("the header lies"), "complete"),
        (UnsupportedError("a pipeline"), "safetensors"),
    ],
)
def test_what_cannot_be_read_is_a_failed_check(
    error: Exception,
    failed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit 1 as for any failed check; there is no report, and the document says so."""

    def load(*_args: object, **_how: object) -> ModelFiles:
        raise error

    monkeypatch.setattr("hfkv.cli.reading.load", load)
    told = document(capsys, "org/name", code=1)
    assert (told["id"], told["passed"], told["report"]) == ("org/name", False, None)
    assert [name for name, status in statuses(told).items() if status == "fail"] == [failed]


def test_junit_counts_what_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    """A test case a check; failures and skipped ones add up."""
    assert main(["check", LLAMA, "-g", "8gib", *SKIP, "-f", "junit"]) == 1
    root = ET.fromstring(capsys.readouterr().out)  # noqa: S314  our own output
    suite = root[0]
    assert suite.attrib["tests"] == str(len(CHECKS)) == str(len(suite))
    assert [case.attrib["name"] for case in suite] == list(CHECKS)
    failures = [case.attrib["name"] for case in suite if case.find("failure") is not None]
    skipped = [case for case in suite if case.find("skipped") is not None]
    assert failures == ["fits"]
    assert suite.attrib["failures"] == "1"
    assert suite.attrib["skipped"] == str(len(skipped)) == "4"
    assert suite.attrib["errors"] == "0"


def hostile() -> Verdicts:
    """Return checks whose words come from somebody who means no good."""
    case = Case(files=None, report=None, surroundings=Surroundings())
    text = "a\n::error::b %0A <x> & ]]> \x1b[2J \ufffe | `c`"
    checks = (
        Check(id="one", status=Status.FAIL, message=text, hint="do\nthis"),
        Check(id="two", status=Status.WARN, message="m", sizes={"free": 2**30}),
    )
    return Verdicts(target="org/na,me:x\n", case=case, checks=checks)


def test_foreign_words_cannot_break_the_xml() -> None:
    """Markup is escaped, and characters that XML does not have are written out."""
    root = ET.fromstring(check_junit(hostile()))  # noqa: S314  our own output
    failure = root[0][0].find("failure")
    assert failure is not None
    message = failure.attrib["message"]
    assert message == "a\\x0a::error::b %0A <x> & ]]> \\x1b[2J \\ufffe | `c`"


def test_foreign_words_cannot_give_commands_to_github() -> None:
    """One line a check, no line of their own, percent signs and separators escaped."""
    first, second = github_annotations(hostile()).splitlines()
    title, message = first.removeprefix("::error title=").split("::", 1)
    assert title == "hfkv one%3A org/na%2Cme%3Ax\\x0a"
    assert message == "a\\x0a::error::b %250A <x> & ]]> \\x1b[2J \ufffe | `c` (do\\x0athis)"
    assert second == "::warning title=hfkv two%3A org/na%2Cme%3Ax\\x0a::m: 1.00 GiB free"


def test_foreign_words_stay_in_their_cell() -> None:
    """A bar in a message is no new column."""
    rows = [line for line in check_markdown(hostile()).splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {4}


def test_github_is_told_beside_the_text_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Annotations follow the text on stdout; JSON stays a document."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    args = ["check", LLAMA, "-g", "8gib", *SKIP, "--overhead", "0"]
    assert main(args) == 1
    lines = capsys.readouterr().out.splitlines()
    errors = [line for line in lines if line.startswith("::error ")]
    assert len(errors) == 1
    assert errors[0].startswith(
        "::error title=hfkv fits%3A meta-llama/Llama-3.1-8B::"
        "8 GiB GPU does not hold 131,072 tokens × 1 sequence: "
    )
    assert len([line for line in lines if line.startswith("::warning ")]) == 2
    assert main([*args, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["passed"] is False
    path = tmp_path / "checks.txt"
    assert main([*args, "-o", str(path)]) == 1
    assert capsys.readouterr().out.startswith("::warning ")
    assert "::error" not in path.read_text(encoding="utf-8")


def test_elsewhere_there_are_no_annotations(capsys: pytest.CaptureFixture[str]) -> None:
    """A person at a terminal sees the checks alone."""
    assert main(["check", LLAMA, *SKIP]) == 0
    assert "::" not in capsys.readouterr().out


@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_no_line_is_wider_than_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every sentence is there to its last word, at any width."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("HF_HOME", "/a/very/long/path/to/a/cache/that/no/narrow/terminal/can/hold")
    main(["check", LLAMA, "-g", "rtx4090"])
    out = capsys.readouterr().out
    assert max(map(cell_len, out.splitlines())) <= width
    assert "…" not in out
    assert all(name in out for name in CHECKS)


def test_a_folder_needs_no_download(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is on this machine is neither fetched nor pinned, and its card names the license."""
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n")
    (tmp_path / "vocab.txt").write_text("x")
    told = document(capsys, str(tmp_path), "--allow-license", "MIT", code=1)
    found = statuses(told)
    assert found["license"] == found["tokenizer"] == "pass"
    assert {found[name] for name in ("pinned", "disk", "cached")} == {"skipped"}
    assert found["complete"] == "fail"  # it has no weights
