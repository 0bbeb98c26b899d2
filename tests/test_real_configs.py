"""Real config.json files against figures worked out by hand (fixtures/configs/README.md)."""

from __future__ import annotations

import csv
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hfkv.core.files import ModelFiles, Target
from hfkv.core.readings import Confidence
from hfkv.core.report import Report, analyze
from hfkv.core.workload import Workload
from hfkv.errors import HfkvError

FIXTURES = Path(__file__).parent.parent / "fixtures"
FOLDERS = sorted(path.parent for path in (FIXTURES / "configs").glob("*/config.json"))
PARTIAL = sorted(path.parent for path in (FIXTURES / "configs-partial").glob("*/config.json"))
WORKLOAD = Workload(kv_dtype="bf16", context=32_768)

each_model = pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)


def read(path: Path) -> Any:
    """Return the value of a JSON file."""
    return json.loads(path.read_bytes())


def files_of(folder: Path) -> ModelFiles:
    """Return a model's config and the small files beside it, without weights."""
    return ModelFiles(
        target=Target(kind="file", id=folder.name.replace("--", "/", 1)),
        config=read(folder / "config.json"),
        side={path.name: read(path) for path in folder.glob("*quant*_config.json")},
    )


@cache
def report_of(folder: Path) -> Report:
    """Return what hfkv says about a fixture."""
    return analyze(files_of(folder), WORKLOAD)


def test_every_fixture_is_complete() -> None:
    """267 models or more, each with a truth, and a line of provenance for every copied file."""
    assert len(FOLDERS) >= 267
    assert [f.name for f in FOLDERS if not (f / "truth.json").is_file()] == []
    with (FIXTURES / "configs" / "SOURCES.tsv").open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        told = {(row["model_id"].replace("/", "--"), row["file"]) for row in rows}
    copied = {
        (f.name, path.name) for f in FOLDERS for path in f.iterdir() if path.name != "truth.json"
    }
    assert told == copied


@each_model
def test_the_cache_is_what_was_worked_out_by_hand(folder: Path) -> None:
    """All bytes, the fixed part and the price of the next token agree, or all are unknown."""
    truth, kv = read(folder / "truth.json"), report_of(folder).kv
    found = (
        (kv.bytes, kv.fixed_bytes_per_sequence, kv.bytes_per_token) if kv else (None, None, None)
    )
    assert found == (
        truth["bytes_at_32768"],
        truth["fixed_bytes_per_sequence"],
        truth["bytes_per_token"],
    )


@each_model
def test_the_layers_that_keep_something_are_of_the_published_kinds(folder: Path) -> None:
    """Layers are counted by kind; those that keep nothing are left out."""
    layers = report_of(folder).architecture.layers
    kinds = Counter(str(layer.kind) for layer in layers if layer.stores)
    assert kinds == (read(folder / "truth.json")["layers"] or {})


@each_model
def test_the_confidence_is_earned_or_explained(folder: Path) -> None:
    """A known family is declared; anything less sure has a sentence that says why."""
    truth, arch = read(folder / "truth.json"), report_of(folder).architecture
    if "confidence" in truth:
        assert arch.confidence is Confidence[truth["confidence"].upper()]
    else:
        assert arch.confidence >= Confidence[truth["confidence_at_least"].upper()]
    assert arch.confidence >= Confidence.DECLARED or all(len(d) > 20 for d in arch.doubts)
    assert arch.confidence >= Confidence.DECLARED or arch.doubts


@pytest.mark.parametrize("folder", PARTIAL, ids=lambda path: path.name)
def test_an_edited_config_gives_a_report_or_a_sentence(folder: Path) -> None:
    """Files with keys missing or rewritten never end in any other exception."""
    try:
        report: Report | HfkvError = report_of(folder)
    except HfkvError as error:
        report = error
    if isinstance(report, HfkvError):
        assert len(report.message) > 20
    else:
        assert report.kv is not None or report.architecture.doubts


def test_all_edited_configs_are_there() -> None:
    """The partial set is not empty by accident."""
    assert len(PARTIAL) == 34
