"""A repository read from a real local server that behaves like the Hub."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hub_models import (
    CONFIG,
    ONE,
    SHARDED,
    SHARDS,
)
from hub_server import HubServer

from hfkv.core.files import HeaderInfo, ModelFiles, RepoFile, Target, TensorGroup
from hfkv.errors import (
    UnsupportedError,
)
from hfkv.sources import load


def test_one_file(hub_server: HubServer) -> None:
    """Config, listing, commit, sizes and tensors of a repository with one weights file."""
    repo = hub_server.add("org/one", {"config.json": CONFIG, "model.safetensors": ONE})
    assert load("org/one") == ModelFiles(
        target=Target(kind="hub", id="org/one", revision="main", sha=repo.sha),
        files=(
            RepoFile(path="config.json", size=len(json.dumps(CONFIG))),
            RepoFile(path="model.safetensors", size=len(ONE), sha256="ab" * 32),
        ),
        weight_files=("model.safetensors",),
        config=CONFIG,
        tensors=(
            TensorGroup(
                name="model.layers.{}.w",
                dtype="BF16",
                shape=(4, 8),
                nbytes=64,
                count=2,
                layers=(0, 1),
            ),
        ),
        headers=(
            HeaderInfo(
                path="model.safetensors",
                header_bytes=len(ONE.first),
                data_bytes=128,
                tensors=2,
            ),
        ),
    )


def test_one_file_takes_five_requests(hub_server: HubServer) -> None:
    """Listing, config and weights are asked at once: one redirect each, nothing twice."""
    hub_server.add("org/one-1b", {"config.json": CONFIG, "model.safetensors": ONE})
    load("org/one-1b")
    sha = hub_server.repos["org/one-1b"].sha
    assert sorted(hub_server.paths("hub")) == [
        "/api/models/org/one-1b/revision/main",
        f"/api/resolve-cache/models/org/one-1b/{sha}/config.json",
        "/org/one-1b/resolve/main/config.json",
        "/org/one-1b/resolve/main/model.safetensors",
    ]
    assert hub_server.paths("cdn") == ["/org/one-1b/model.safetensors"]


def test_shards_index_and_side_files(hub_server: HubServer) -> None:
    """All shards are read, the index is compared, and side files that exist are kept."""
    side = {"quantization": {"quant_algo": "FP8"}}
    hub_server.add("org/two", {**SHARDED, "hf_quant_config.json": side, "vocab.json": {}})
    files = load("org/two", deep=True)
    assert files.weight_files == SHARDS
    assert [(g.name, g.count) for g in files.tensors] == [
        ("lm_head.weight", 1),
        ("model.layers.{}.w", 2),
    ]
    assert files.side == {"hf_quant_config.json": side}
    assert files.index is not None
    assert files.index.total_size == 136
    assert files.index.files == {SHARDS[0]: 1, SHARDS[1]: 2}
    assert files.problems == ()


def test_weights_are_read_at_the_commit_of_the_listing(hub_server: HubServer) -> None:
    """What the listing led to is asked at its commit, not at the moving branch."""
    repo = hub_server.add("org/two", SHARDED, bundles=False)
    load("org/two")
    asked = [path for path in hub_server.paths("hub") if "of-00002" in path]
    assert sorted(asked) == [f"/org/two/resolve/{repo.sha}/{name}" for name in SHARDS]


def test_push_between_listing_and_config(hub_server: HubServer) -> None:
    """An early answer from another commit than the listing's is asked for again."""
    repo = hub_server.add(
        "org/one",
        {"config.json": CONFIG, "model.safetensors": ONE},
        commit="a" * 40,
        info={"sha": "b" * 40},
        revisions=("main", "b" * 40),
    )
    assert repo.sha == "a" * 40
    files = load("org/one")
    assert files.target.sha == "b" * 40
    assert f"/org/one/resolve/{'b' * 40}/config.json" in hub_server.paths("hub")
    assert f"/org/one/resolve/{'b' * 40}/model.safetensors" in hub_server.paths("hub")


@pytest.mark.parametrize("revision", ["v1.0", "refs/pr/7"])
def test_revision(hub_server: HubServer, revision: str) -> None:
    """A tag or a pull request is asked for by name, its slashes escaped."""
    hub_server.add(
        "org/one",
        {"config.json": CONFIG, "model.safetensors": ONE},
        revisions=("main", revision),
    )
    assert load("org/one", revision=revision).target.revision == revision
    assert load(f"org/one@{revision}").target.revision == revision
    assert all("/main/" not in seen.path for seen in hub_server.seen)


def test_endpoint_with_a_path(hub_server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror below a path is asked below that path only."""
    hub_server.prefix = "/mirrors/hf"
    monkeypatch.setenv("HF_ENDPOINT", hub_server.endpoint + "/")
    hub_server.add("org/two", SHARDED)
    assert load("org/two").problems == ()
    assert load(f"{hub_server.endpoint}/org/two/tree/main").problems == ()
    assert all(path.startswith("/mirrors/hf/") for path in hub_server.paths("hub"))


def test_renamed_repository(hub_server: HubServer) -> None:
    """An old name leads to the new one, and the report says so."""
    hub_server.add("new/name", {"config.json": CONFIG, "model.safetensors": ONE})
    hub_server.renamed["gpt2"] = "new/name"
    files = load("gpt2")
    assert files.target.id == "new/name"
    assert [p.message for p in files.problems] == ["gpt2 is called new/name on the Hub"]


def test_one_named_file(hub_server: HubServer) -> None:
    """`org/name:FILE` sizes that file alone, with the model's config."""
    hub_server.add("org/two", {**SHARDED, "extra.safetensors": ONE})
    files = load("org/two:extra.safetensors")
    assert files.target.id == "org/two:extra.safetensors"
    assert files.weight_files == ("extra.safetensors",)
    assert files.config == CONFIG
    assert sum(group.count for group in files.tensors) == 2


def test_named_gguf_is_refused_before_any_request(hub_server: HubServer) -> None:
    """GGUF comes later; until then it is a sentence."""
    with pytest.raises(UnsupportedError) as caught:
        load("org/one:model-Q4_K_M.gguf")
    assert caught.value.message == "model-Q4_K_M.gguf: GGUF files are not read yet"
    assert hub_server.seen == []


def test_config_of_the_users_own(hub_server: HubServer, tmp_path: Path) -> None:
    """`--config FILE` replaces the repository's, which is then not even asked for."""
    hub_server.add("org/one", {"config.json": CONFIG, "model.safetensors": ONE})
    path = tmp_path / "mine.json"
    path.write_text('{"model_type": "mine"}')
    assert load("org/one", config_path=str(path)).config == {"model_type": "mine"}
    assert not any("config.json" in seen.path for seen in hub_server.seen)


def test_progress(hub_server: HubServer) -> None:
    """The caller is told of every header."""
    hub_server.add("org/two", SHARDED, bundles=False)
    told: list[tuple[int, int, str]] = []
    load("org/two", progress=lambda *args: told.append(args))
    assert told == [(0, 2, "headers"), (1, 2, "headers"), (2, 2, "headers")]
