"""The Hub's endpoint for all headers at once: used when it answers rightly, never relied on."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hub_models import CONFIG, SHARDED, SHARDS
from hub_server import GRANTED, HubServer, weights

from hfkv.core.files import ModelFiles
from hfkv.sources import load

BUNDLE = "/api/models/{}/safetensors-metadata/model.safetensors.index.json"


def by_ranges(monkeypatch: pytest.MonkeyPatch, name: str) -> ModelFiles:
    """Return what the files themselves say, asked without cache and endpoint."""
    with monkeypatch.context() as patch:
        patch.setenv("HFKV_ONE_REQUEST", "0")
        patch.setenv("HFKV_CACHE", "/dev/null/nowhere")
        return load(name)


def test_four_requests_for_any_number_of_files(
    hub_server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listing, config with its redirect, and one for the headers: the same model comes out."""
    hub_server.add("org/big-400B", SHARDED)
    files = load("org/big-400B")
    sha = hub_server.repos["org/big-400B"].sha
    assert sorted(hub_server.paths("hub")) == [
        "/api/models/org/big-400B/revision/main",
        BUNDLE.format("org/big-400B"),
        f"/api/resolve-cache/models/org/big-400B/{sha}/config.json",
        "/org/big-400B/resolve/main/config.json",
    ]
    assert hub_server.paths("cdn") == []
    assert files == by_ranges(monkeypatch, "org/big-400B")


def test_it_can_be_switched_off(hub_server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """HFKV_ONE_REQUEST=0: then four files cost one request each at the Hub and at its CDN."""
    monkeypatch.setenv("HFKV_ONE_REQUEST", "0")
    names = [f"model-{i:05}-of-00004.safetensors" for i in range(1, 5)]
    shards = {name: weights((f"model.layers.{i}.w", "U8", (4,), 4)) for i, name in enumerate(names)}
    index = {"weight_map": {f"model.layers.{i}.w": name for i, name in enumerate(names)}}
    hub_server.add(
        "org/four-8B", {"config.json": CONFIG, **shards, "model.safetensors.index.json": index}
    )
    assert load("org/four-8B").tensors[0].count == 4
    assert len(hub_server.seen) == 12
    assert not any("safetensors-metadata" in path for path in hub_server.paths())


ODD: dict[str, dict[str, Any]] = {
    "not there": {"kind": "status", "status": 404},
    "not yours": {"kind": "status", "status": 401},
    "a server error": {"kind": "status", "status": 500},
    "a page": {"kind": "html"},
    "rubbish": {"kind": "status", "status": 200, "body": b'{"headers": {"a": {}}}'},
    "no JSON": {"kind": "status", "status": 200, "body": b"{"},
    "another commit": {
        "kind": "status",
        "status": 200,
        "body": b"{}",
        "headers": {"X-Repo-Commit": "e" * 40},
    },
    "a broken connection": {"kind": "reset"},
}


@pytest.mark.parametrize("case", ODD)
def test_any_other_answer_leads_to_the_files(
    hub_server: HubServer, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """The user sees no difference."""
    monkeypatch.setattr("hfkv.sources.http.random.uniform", lambda *_: 0.001)
    hub_server.add("org/two", SHARDED)
    hub_server.fault("safetensors-metadata", **ODD[case])
    files = load("org/two")
    assert hub_server.faults[0].times < 1_000_000
    assert files == by_ranges(monkeypatch, "org/two")
    assert files.problems == ()


def test_silence_is_not_waited_for(hub_server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that does not answer costs its head start, not the deadline."""
    monkeypatch.setattr("hfkv.sources.shards._HEAD_START", 0.25)
    hub_server.add("org/two", SHARDED)
    hub_server.fault("safetensors-metadata", "hang")
    started = time.monotonic()
    assert len(load("org/two").headers) == 2
    assert time.monotonic() - started < 2


def test_stale_headers_are_not_taken(
    hub_server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headers of an earlier push do not fill the files that are listed now."""
    hub_server.add("org/two", SHARDED)
    old = b'{"headers": {"%s": {"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}}}'
    body = old % SHARDS[0].encode()
    hub_server.fault("safetensors-metadata", "status", status=200, body=body)
    assert load("org/two") == by_ranges(monkeypatch, "org/two")


@pytest.mark.parametrize("target", ["org/two@v1", f"org/two:{SHARDS[0]}", "org/two@refs/pr/1"])
def test_asked_for_the_default_branch_of_whole_models_only(
    hub_server: HubServer, target: str
) -> None:
    """It knows nothing else."""
    hub_server.add("org/two", SHARDED, revisions=("main", "v1", "refs/pr/1"))
    load(target)
    assert not any("safetensors-metadata" in path for path in hub_server.paths())


def test_many_files_in_spite_of_a_small_name(hub_server: HubServer) -> None:
    """Where the list shows many files, it is asked for although the name promised one."""
    names = [f"model-{i:05}-of-00009.safetensors" for i in range(1, 10)]
    shards = {name: weights((f"model.layers.{i}.w", "U8", (4,), 4)) for i, name in enumerate(names)}
    index = {"weight_map": {f"model.layers.{i}.w": name for i, name in enumerate(names)}}
    hub_server.add(
        "org/tiny-100m", {"config.json": CONFIG, **shards, "model.safetensors.index.json": index}
    )
    assert load("org/tiny-100m").tensors[0].count == 9
    assert hub_server.paths("cdn") == []
    assert hub_server.paths("hub").count(BUNDLE.format("org/tiny-100m")) == 1


def test_gated_with_access(hub_server: HubServer) -> None:
    """A gated model of which the endpoint says nothing is read from its files."""
    hub_server.add("org/gated", SHARDED, gated="auto")
    files = load("org/gated", token=GRANTED)
    assert len(files.headers) == 2
    assert files.problems == ()
