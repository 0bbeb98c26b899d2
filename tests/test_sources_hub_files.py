"""Which files of a repository on the Hub are read, and what is said of the others."""

from __future__ import annotations

from typing import Any

import pytest
from hub_models import (
    CONFIG,
    INDEX,
    ONE,
    SHARDED,
    SHARDS,
    codes,
)
from hub_server import HubServer

from hfkv.errors import (
    MalformedError,
    UnreadableError,
    UnsupportedError,
)
from hfkv.sources import load


def test_index_is_waited_for_only_when_names_do_not_tell(hub_server: HubServer) -> None:
    """Copies in other formats are never read, and files the index leaves out are told."""
    hub_server.add(
        "org/two",
        {
            **SHARDED,
            "model.fp16.safetensors": ONE,
            "consolidated.safetensors": ONE,
            "original/model.safetensors": ONE,
            "model-mtp.safetensors": ONE,
        },
    )
    files = load("org/two")
    assert files.weight_files == SHARDS
    assert codes(files) == ["unlisted-shard"]
    assert not any("mtp" in path or "fp16" in path for path in hub_server.paths("cdn"))


def test_index_is_not_read_where_names_tell(hub_server: HubServer) -> None:
    """A complete series of names needs no index, whatever is in it, unless one looks deep."""
    hub_server.add("org/two", {**SHARDED, "model.safetensors.index.json": b"{"}, bundles=False)
    files = load("org/two")
    assert files.index is None
    assert files.weight_files == SHARDS
    assert not any("/resolve/" in path and "index" in path for path in hub_server.paths())
    with pytest.raises(MalformedError, match=r"^model\.safetensors\.index\.json: not valid JSON"):
        load("org/two", deep=True)


def test_files_in_subfolders_that_the_index_names(hub_server: HubServer) -> None:
    """Names alone would say that there are no weights: the index is asked."""
    nested = {SHARDS[0]: f"sub/{SHARDS[0]}", SHARDS[1]: f"sub/{SHARDS[1]}"}
    index = {**INDEX, "weight_map": {t: nested[f] for t, f in INDEX["weight_map"].items()}}  # type: ignore[attr-defined]
    files = {nested.get(name, name): content for name, content in SHARDED.items()}
    hub_server.add(
        "org/two", {**files, "model.safetensors.index.json": index, "sub/x.safetensors": ONE}
    )
    found = load("org/two")
    assert found.weight_files == tuple(nested.values())
    assert (codes(found), sum(group.count for group in found.tensors)) == ([], 3)


def test_index_that_disagrees(hub_server: HubServer) -> None:
    """A wrong total, a missing file and a tensor in no file are told, and do not stop it."""
    index = {
        "metadata": {"total_size": 1},
        "weight_map": {**INDEX["weight_map"], "ghost": SHARDS[0]},  # type: ignore[dict-item]
    }
    hub_server.add("org/two", {**SHARDED, "model.safetensors.index.json": index})
    assert codes(load("org/two", deep=True)) == ["index-mismatch", "index-total-mismatch"]
    index["weight_map"]["far"] = "model-00003-of-00003.safetensors"  # type: ignore[index]
    hub_server.add("org/two", {**SHARDED, "model.safetensors.index.json": index}, commit="d" * 40)
    assert codes(load("org/two", deep=True)) == ["missing-shard", "index-mismatch"]


@pytest.mark.parametrize("name", ["../x.safetensors", "/etc/passwd", "a\\b", "http://x/y", "a\tb"])
def test_hostile_file_name_in_the_index(hub_server: HubServer, name: str) -> None:
    """A name that could mean a file elsewhere is refused, and never asked for."""
    hub_server.add(
        "org/two", {**SHARDED, "model.safetensors.index.json": {"weight_map": {"w": name}}}
    )
    with pytest.raises(MalformedError) as caught:
        load("org/two", deep=True)
    assert caught.value.message == f"model.safetensors.index.json: unsafe file name {name!r}"


UNREADABLE: dict[str, tuple[dict[str, Any], str, str]] = {
    "pickle": (
        {"config.json": CONFIG, "pytorch_model.bin": b"x"},
        "pickle-weights",
        "only pickled weights, whose sizes cannot be read safely: pytorch_model.bin",
    ),
    "gguf": (
        {"a-Q4_0.gguf": b"x", "a-Q8_0.gguf": b"x"},
        "gguf",
        "only GGUF files, which hfkv does not read yet: a-Q4_0.gguf, a-Q8_0.gguf",
    ),
    "adapter": (
        {"adapter_config.json": {}, "adapter_model.safetensors": ONE},
        "adapter",
        "an adapter: it adds to the weights of another model",
    ),
    "pipeline": (
        {"model_index.json": {}, "unet/model.safetensors": ONE},
        "diffusers",
        "a diffusers pipeline: its models lie in subfolders",
    ),
    "two files": (
        {"a.safetensors": ONE, "b.safetensors": ONE},
        "ambiguous-weights",
        (
            "2 safetensors files and nothing that says which make up the model: "
            "a.safetensors, b.safetensors"
        ),
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_no_weights_that_can_be_read(hub_server: HubServer, case: str) -> None:
    """Other formats are named; with a config this is a problem, without one the end."""
    contents, code, message = UNREADABLE[case]
    hub_server.add("org/odd", {**contents, "config.json": CONFIG})
    files = load("org/odd")
    assert files.weight_files == ()
    assert [(p.code, p.message) for p in files.problems] == [(code, message)]
    contents = {name: data for name, data in contents.items() if name != "config.json"}
    hub_server.add("org/odd", contents)
    with pytest.raises(UnsupportedError) as caught:
        load("org/odd")
    assert caught.value.code == code
    assert caught.value.message == f"org/odd: {message}"


def test_repository_without_a_model(hub_server: HubServer) -> None:
    """A repository with only a README is not a model."""
    hub_server.add("org/doc", {"README.md": b"hello"})
    with pytest.raises(UnreadableError) as caught:
        load("org/doc")
    assert caught.value.message == "org/doc: no model here: neither config.json nor weights"


def test_weights_without_a_config(hub_server: HubServer) -> None:
    """Without config.json the weights are read, and what is missing is said."""
    hub_server.add("org/bare", {"model.safetensors": ONE})
    files = load("org/bare")
    assert files.config is None
    assert sum(header.data_bytes for header in files.headers) == 128
    assert codes(files) == ["no-config"]
