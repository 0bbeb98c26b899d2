"""Which files make up a model, and what is said when the list does not add up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hfkv.core.files import Problem, RepoFile, check_name
from hfkv.core.manifest import (
    Index,
    choose,
    index_name,
    needs_index,
    parse_index,
    without_weights,
)
from hfkv.errors import MalformedError


def listing(*names: str) -> list[RepoFile]:
    """Return files of these names."""
    return [RepoFile(path=name, size=100) for name in names]


def index(*weights: str, total: Any = None, path: str = "model.safetensors.index.json") -> Index:
    """Return an index of `tensor=file` entries."""
    weight_map = dict(weight.split("=") for weight in weights)
    data = {"metadata": {"total_size": total}, "weight_map": weight_map}
    return parse_index(json.dumps(data).encode(), path=path)


def series(total: int, prefix: str = "model") -> list[str]:
    """Return the names of a complete series."""
    return [f"{prefix}-{i:05}-of-{total:05}.safetensors" for i in range(1, total + 1)]


BESIDE = ["config.json", "README.md", "tokenizer.json", "pytorch_model.bin", "model.gguf"]


CHOICES: dict[str, tuple[list[str], list[str]]] = {
    "one file": (["model.safetensors", *BESIDE], ["model.safetensors"]),
    "a series": ([*series(3), *BESIDE], series(3)),
    "a long series, sorted": (series(163)[::-1], series(163)),
    "a series from zero": (
        ["model-00000-of-00002.safetensors", "model-00001-of-00002.safetensors"],
        ["model-00000-of-00002.safetensors", "model-00001-of-00002.safetensors"],
    ),
    "another name": (["llama-3.1-8b.safetensors", *BESIDE], ["llama-3.1-8b.safetensors"]),
    "a series of another name": (series(2, "weights"), series(2, "weights")),
    "the model's series, not another": ([*series(2), *series(2, "text")], series(2)),
    "Meta's own copy": (
        [*series(2), "consolidated.safetensors", "original/consolidated.00.pth"],
        series(2),
    ),
    "Meta's own series": ([*series(2), *series(4, "consolidated")], series(2)),
    "half precision copies": (
        ["model.safetensors", "model.fp16.safetensors", "model.non_ema.safetensors"],
        ["model.safetensors"],
    ),
    "half precision series": (
        [
            *series(2),
            "model.fp16-00001-of-00002.safetensors",
            "model-00001-of-00002.fp16.safetensors",
        ],
        series(2),
    ),
    "only half precision": (["model.fp16.safetensors"], ["model.fp16.safetensors"]),
    "adapters": (
        ["model.safetensors", "adapter_model.safetensors", "pytorch_lora_weights.safetensors"],
        ["model.safetensors"],
    ),
    "training state": (
        ["model.safetensors", "optimizer.safetensors", "rng_state_0.safetensors"],
        ["model.safetensors"],
    ),
    "subfolders": (
        ["model.safetensors", "unet/model.safetensors", "checkpoint-5/model.safetensors"],
        ["model.safetensors"],
    ),
    "only subfolders": (["unet/model.safetensors", "vae/model.safetensors"], []),
    "old shards beside the whole": (
        ["model.safetensors", "model-00001-of-00009.safetensors"],
        ["model.safetensors"],
    ),
    "a series before the whole": (["model.safetensors", *series(2)], series(2)),
    "shards of two uploads": ([*series(2), "model-00001-of-00007.safetensors"], series(2)),
    "nothing tells": (["a.safetensors", "b.safetensors"], []),
    "nothing": (BESIDE, []),
}


@pytest.mark.parametrize("case", CHOICES)
def test_choice_by_name(case: str) -> None:
    """A complete series, else model.safetensors, else the only file; never a copy of it."""
    names, expected = CHOICES[case]
    assert list(choose(listing(*names)).weight_files) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([*series(3), *BESIDE, "consolidated.safetensors"], False),
        (["model.safetensors", "optimizer.safetensors"], False),
        ([*series(3), "model-mtp.safetensors"], True),
        (series(3)[:2], True),
        (["a.safetensors", "b.safetensors"], True),
        (["sub/model.safetensors"], True),
    ],
)
def test_when_the_index_is_needed(names: list[str], expected: bool) -> None:
    """Only where the safetensors files are not exactly one complete model."""
    assert needs_index(listing(*names)) is expected


def test_index_decides() -> None:
    """The files it names are the model, whatever they are called."""
    files = listing("x.safetensors", "y.safetensors", "sub/z.safetensors", "model.safetensors")
    manifest = choose(files, index("a=x.safetensors", "b=sub/z.safetensors"))
    assert manifest.weight_files == ("sub/z.safetensors", "x.safetensors")
    assert manifest.problems == (
        Problem(
            code="unlisted-shard",
            message="not part of the model by model.safetensors.index.json, so not counted: "
            "model.safetensors, y.safetensors",
            hint="name a file as org/name:FILE or by its path to size it alone",
        ),
    )


def test_index_names_what_is_not_there() -> None:
    """What is missing is told, and the rest is read."""
    names = series(5)
    manifest = choose(listing(names[4]), index(*(f"t{i}={n}" for i, n in enumerate(names))))
    assert manifest.weight_files == (names[4],)
    assert manifest.problems == (
        Problem(
            code="missing-shard",
            message="model.safetensors.index.json names files that are not there: "
            f"{names[0]}, {names[1]}, {names[2]} and 1 more",
            hint="the upload or download is incomplete; the weights shown are only a part",
        ),
    )


def test_left_over_index() -> None:
    """An index of shards that are all gone gives way to the file that is there."""
    manifest = choose(listing("model.safetensors"), index("a=model-00001-of-00002.safetensors"))
    assert manifest.weight_files == ("model.safetensors",)
    assert [problem.code for problem in manifest.problems] == ["missing-shard"]


def test_gap_in_a_series() -> None:
    """Without an index, a series that lacks members says how many."""
    manifest = choose(listing(*series(30)[:28]))
    assert len(manifest.weight_files) == 28
    assert [problem.message for problem in manifest.problems] == [
        "2 of the 30 files model-…-of-00030.safetensors are not there"
    ]


def test_series_that_claims_a_billion_files() -> None:
    """A hostile number in a name costs nothing."""
    manifest = choose(listing("model-000000001-of-999999999.safetensors"))
    assert manifest.problems[0].message == (
        "999,999,998 of the 999,999,999 files model-…-of-999999999.safetensors are not there"
    )


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            ["model.safetensors.index.json", "x.safetensors.index.json"],
            "model.safetensors.index.json",
        ),
        (["x.safetensors.index.json"], "x.safetensors.index.json"),
        (["x.safetensors.index.json", "y.safetensors.index.json"], None),
        (["unet/model.safetensors.index.json"], None),
        (
            ["consolidated.safetensors.index.json", "consolidated-00001-of-00002.safetensors"],
            "consolidated.safetensors.index.json",
        ),
        (["consolidated.safetensors.index.json", "model.safetensors"], None),
        (["pytorch_model.bin.index.json", "model.safetensors.index.fp16.json"], None),
    ],
)
def test_which_index(names: list[str], expected: str | None) -> None:
    """The usual name, else the only one at the top."""
    assert index_name(listing(*names)) == expected


def test_index_is_counted_by_file() -> None:
    """How many tensors each file should hold, and the total, also as old floats."""
    info = index("a=x", "b=y", "c=x", total=16060522496.0).info
    assert info.files == {"x": 2, "y": 1}
    assert info.total_size == 16060522496


@pytest.mark.parametrize("total", [None, "12", -1, True, 1.5, [], float("inf"), float("nan")])
def test_total_that_is_none(total: Any) -> None:
    """A total that is no size is not compared with anything."""
    assert index("a=x", total=total).info.total_size is None


INDEXES = {
    b"[]": "i: expected a JSON object at the top, got a list",
    b"{}": "i: weight_map: expected an object",
    b'{"weight_map": ["a"]}': "i: weight_map: expected an object",
    b'{"weight_map": {"a": 5}}': "i: weight_map.'a': expected a file name, got a number",
    b'{"weight_map": {"a": "../b"}}': "i: unsafe file name '../b'",
    b'{"weight_map"': "i: not valid JSON (Expecting ':' delimiter, line 1 column 14)",
}


@pytest.mark.parametrize("raw", INDEXES)
def test_broken_index(raw: bytes) -> None:
    """Wrong types anywhere are malformed."""
    with pytest.raises(MalformedError) as caught:
        parse_index(raw, path="i")
    assert caught.value.message == INDEXES[raw]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "..",
        "../a",
        "a/../b",
        "/a",
        "a//b",
        "a/",
        "a\\b",
        "s3://b/a",
        "a\nb",
        "\x1b[31m",
        "x" * 1025,
    ],
)
def test_unsafe_names(name: str) -> None:
    """Nothing that could leave the repository or drive a terminal is used as a name."""
    with pytest.raises(MalformedError, match="unsafe file name"):
        check_name(name, where="w")


@pytest.mark.parametrize("name", ["a", "a b.safetensors", "sub/a", "..a", "a..b", "ä", ".a"])
def test_safe_names(name: str) -> None:
    """Odd but harmless names pass."""
    check_name(name, where="w")


REASONS: dict[str, tuple[list[str], str, str]] = {
    "gguf": (
        [f"m-Q{i}_0.gguf" for i in range(2, 9)],
        "gguf",
        (
            "only GGUF files, which hfkv does not read yet: "
            "m-Q2_0.gguf, m-Q3_0.gguf, m-Q4_0.gguf and 4 more"
        ),
    ),
    "pickle": (
        ["pytorch_model.bin", "config.json"],
        "pickle-weights",
        "only pickled weights, whose sizes cannot be read safely: pytorch_model.bin",
    ),
    "Meta's own": (
        ["consolidated.00.pth", "params.json"],
        "pickle-weights",
        "only pickled weights, whose sizes cannot be read safely: consolidated.00.pth",
    ),
    "adapter": (
        ["adapter_model.safetensors"],
        "adapter",
        "an adapter: it adds to the weights of another model",
    ),
    "pipeline": (
        ["model_index.json", "unet/diffusion_pytorch_model.safetensors"],
        "diffusers",
        "a diffusers pipeline: its models lie in subfolders",
    ),
    "several": (
        ["a.safetensors", "b.safetensors"],
        "ambiguous-weights",
        (
            "2 safetensors files and nothing that says which make up the model: "
            "a.safetensors, b.safetensors"
        ),
    ),
    "nothing": (["README.md"], "no-weights", "no weight files"),
}


@pytest.mark.parametrize("case", REASONS)
def test_why_there_are_no_weights(case: str) -> None:
    """Each other format has its own sentence, and most a way on."""
    names, code, message = REASONS[case]
    reason = without_weights(listing(*names))
    assert (reason.code, reason.message) == (code, message)
    assert (reason.hint is None) == (code == "no-weights")
