"""A snapshot holds everything that was read, and is checked like any input."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfkv.core.files import (
    HeaderInfo,
    IndexInfo,
    ModelFiles,
    Problem,
    RepoFile,
    Target,
    TensorGroup,
)
from hfkv.core.snapshots import dumps, format_ranges, from_json, loads, parse_ranges, to_json
from hfkv.errors import MalformedError, UnsupportedError

FIXTURES = sorted((Path(__file__).parent.parent / "fixtures" / "models").glob("*.hfkv.json"))
FULL = ModelFiles(
    target=Target(kind="hub", id="org/name", revision="main", sha="a" * 40),
    files=(RepoFile(path="w", size=120, sha256="b" * 64), RepoFile(path="x")),
    weight_files=("w",),
    config={"n": 10**30, "f": float("inf"), "deep": {"a": [None, True]}, "s": "\ud800é"},
    side={"generation_config.json": {"eos": 2}},
    tensors=(
        TensorGroup(
            name="l.{}.w", dtype="BF16", shape=(2, 4), nbytes=16, count=3, layers=(0, 1, 5)
        ),
        TensorGroup(name="odd", dtype="F5_NEW", shape=(), nbytes=5),
    ),
    headers=(
        HeaderInfo(path="w", header_bytes=67, data_bytes=53, tensors=4, metadata={"format": "pt"}),
    ),
    index=IndexInfo(path="i", total_size=53, files={"w": 4}),
    hub={"gated": "auto", "safetensors": {"parameters": {"BF16": 24}}},
    problems=(Problem(code="c", message="m", hint="h"), Problem(code="d", message="n")),
)


def test_round_trip() -> None:
    """Every field survives, also infinite numbers and halves of surrogate pairs."""
    assert loads(dumps(FULL).encode(), where="x") == FULL
    assert from_json(to_json(FULL), where="x") == FULL


def test_smallest_round_trip() -> None:
    """Nothing but a target is a snapshot too."""
    files = ModelFiles(target=Target(kind="folder", id="."))
    assert loads(dumps(files).encode(), where="x") == files


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name.removesuffix(".hfkv.json"))
def test_fixture_is_what_dumps_writes(path: Path) -> None:
    """Every fixture reads and writes back to the same bytes, is small, and has no secrets."""
    raw = path.read_bytes()
    files = loads(raw, where=path.name)
    assert dumps(files).encode() == raw
    assert len(raw) < 60_000
    assert files.target.kind == "hub"
    assert files.target.id == path.name.removesuffix(".hfkv.json").replace("--", "/", 1)
    assert files.target.sha is None
    assert files.problems == ()


def test_there_are_fixtures() -> None:
    """The 44 models whose headers were made with transformers."""
    assert len(FIXTURES) == 44


def test_llama_fixture_has_the_published_size() -> None:
    """8,030,261,248 parameters in 16,060,522,496 bytes, as on the model's page."""
    path = next(p for p in FIXTURES if p.name == "meta-llama--Llama-3.1-8B.hfkv.json")
    files = loads(path.read_bytes(), where=path.name)
    assert sum(group.elements * group.count for group in files.tensors) == 8_030_261_248
    assert sum(header.data_bytes for header in files.headers) == 16_060_522_496
    assert files.index is not None
    assert files.index.total_size == 16_060_522_496


def test_one_item_a_line() -> None:
    """Two snapshots can be compared line by line."""
    lines = dumps(FULL).splitlines()
    assert ' {"path": "x"}' in lines
    assert (
        ' {"name": "odd", "dtype": "F5_NEW", "shape": [], "nbytes": 5, "count": 1, "layers": ""}'
        in lines
    )


DELETE = object()
WRONG: dict[str, tuple[list[Any], Any, str]] = {
    "schema": (["schema"], DELETE, "x: not a snapshot: it has no schema hfkv.snapshot/1"),
    "schema of another kind": (
        ["schema"],
        "hfkv.inspect/1",
        "x: not a snapshot: it has no schema hfkv.snapshot/1",
    ),
    "no target": (["target"], DELETE, "x: target: expected an object, got nothing"),
    "target": (["target"], [], "x: target: expected an object, got []"),
    "kind": (
        ["target", "kind"],
        "s3",
        "x: target.kind: expected one of hub, folder, file, snapshot, got 's3'",
    ),
    "id": (["target", "id"], 5, "x: target.id: expected a string, got 5"),
    "sha": (["target", "sha"], 5, "x: target.sha: expected a string, got 5"),
    "files": (["files"], {}, "x: files: expected a list, got {}"),
    "file": (["files", 1], "w", "x: files[1]: expected an object, got 'w'"),
    "file path": (["files", 1, "path"], None, "x: files[1].path: expected a string, got None"),
    "file size": (["files", 0, "size"], -1, "x: files[0].size: expected at least 0, got -1"),
    "float size": (["files", 0, "size"], 1.0, "x: files[0].size: expected an integer, got 1.0"),
    "bool size": (["files", 0, "size"], True, "x: files[0].size: expected an integer, got True"),
    "weight files": (["weight_files", 0], 1, "x: weight_files[0]: expected a string, got 1"),
    "config": (["config"], [1], "x: config: expected an object, got [1]"),
    "side": (["side"], None, "x: side: expected an object, got None"),
    "hub": (["hub"], "a", "x: hub: expected an object, got 'a'"),
    "name": (["tensors", 0, "name"], 1, "x: tensors[0].name: expected a string, got 1"),
    "shape": (["tensors", 0, "shape"], "2", "x: tensors[0].shape: expected a list, got '2'"),
    "dim": (["tensors", 0, "shape", 1], -4, "x: tensors[0].shape[1]: expected a size, got -4"),
    "bool dim": (
        ["tensors", 0, "shape", 1],
        True,
        "x: tensors[0].shape[1]: expected a size, got True",
    ),
    "nbytes": (
        ["tensors", 0, "nbytes"],
        17,
        "x: tensors[0].nbytes: BF16 of shape [2, 4] does not take 17 bytes",
    ),
    "count": (["tensors", 0, "count"], 0, "x: tensors[0].count: expected at least 1, got 0"),
    "layers": (
        ["tensors", 0, "layers"],
        "0-1,x",
        "x: tensors[0].layers: not a list of ranges: '0-1,x'",
    ),
    "too many layers": (
        ["tensors", 0, "layers"],
        "0-999999999",
        "x: tensors[0].layers: more than 3 numbers in it",
    ),
    "layers out of order": (
        ["tensors", 0, "layers"],
        "5,0-1",
        "x: tensors[0].layers: ranges out of order: '5,0-1'",
    ),
    "layers backwards": (
        ["tensors", 0, "layers"],
        "5-3",
        "x: tensors[0].layers: ranges out of order: '5-3'",
    ),
    "tensors that do not sum": (
        ["tensors", 0, "count"],
        4,
        "x: its tensor groups sum to 5 tensors, and its headers to 4",
    ),
    "bytes that do not sum": (
        ["tensors", 1, "nbytes"],
        6,
        "x: its tensor groups sum to 54 bytes, and its headers to 53",
    ),
    "header": (
        ["headers", 0, "header_bytes"],
        7,
        "x: headers[0].header_bytes: expected at least 8, got 7",
    ),
    "header metadata": (
        ["headers", 0, "metadata", "format"],
        1,
        "x: headers[0].metadata.format: expected a string, got 1",
    ),
    "index": (["index"], [], "x: index: expected an object, got []"),
    "index files": (
        ["index", "files", "w"],
        0,
        "x: index.files.w: expected at least 1, got 0",
    ),
    "problem": (
        ["problems", 1, "message"],
        DELETE,
        "x: problems[1].message: expected a string, got nothing",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_value(case: str) -> None:
    """Every wrong type or figure is refused with the path to it."""
    path, value, message = WRONG[case]
    data = copy.deepcopy(to_json(FULL))
    place: Any = data
    for step in path[:-1]:
        place = place[step]
    if value is DELETE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    with pytest.raises(MalformedError) as caught:
        from_json(data, where="x")
    assert caught.value.message == message


@pytest.mark.parametrize("data", [None, [], "hfkv.snapshot/1", 5, {}, {"schema": 1}])
def test_not_a_snapshot(data: Any) -> None:
    """Other JSON is not mistaken for one."""
    with pytest.raises(MalformedError) as caught:
        from_json(data, where="x")
    assert caught.value.message == "x: not a snapshot: it has no schema hfkv.snapshot/1"


def test_later_schema() -> None:
    """A snapshot of a later hfkv is not broken, only newer."""
    with pytest.raises(UnsupportedError) as caught:
        from_json({"schema": "hfkv.snapshot/2"}, where="x")
    assert caught.value.message == (
        "x: a snapshot of schema 'hfkv.snapshot/2', and this hfkv reads hfkv.snapshot/1"
    )
    assert caught.value.hint == "upgrade hfkv"


def test_config_at_the_depth_limit_survives() -> None:
    """A config as deep as may be read can be saved and read again."""
    deep: Any = 1
    for _ in range(99):
        deep = [deep]
    files = ModelFiles(target=Target(kind="file", id="c"), config={"deep": deep})
    assert loads(dumps(files).encode(), where="x") == files


@settings(max_examples=150, deadline=None)
@given(st.sets(st.integers(0, 300)))
def test_ranges_round_trip(numbers: set[int]) -> None:
    """Any set of layers is written and read back."""
    text = format_ranges(sorted(numbers))
    assert parse_ranges(text, limit=len(numbers), where="x") == tuple(sorted(numbers))


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([0], "0"), ([0, 1], "0-1"), ([0, 1, 2, 5, 7, 8], "0-2,5,7-8")],
)
def test_ranges(numbers: list[int], text: str) -> None:
    """Runs are written as first-last."""
    assert format_ranges(numbers) == text


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=5,
    ),
    st.data(),
)
def test_any_json_in_any_place(value: Any, data: st.DataObject) -> None:
    """Whatever JSON stands in whatever place, it is read or refused, never a crash."""
    snapshot: dict[str, Any] = json.loads(json.dumps(to_json(FULL)))
    place: Any = snapshot
    key: Any = data.draw(st.sampled_from(sorted(snapshot)))
    while isinstance(place[key], (dict, list)) and place[key] and data.draw(st.booleans()):
        place = place[key]
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(keys))
    place[key] = value
    try:
        files = from_json(snapshot, where="x")
    except (MalformedError, UnsupportedError):
        return
    assert isinstance(files, ModelFiles)
