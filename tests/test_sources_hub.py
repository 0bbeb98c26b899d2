"""A repository read from a real local server that behaves like the Hub."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hub_server import FINE_GRAINED, GRANTED, VALID, HubServer, Sparse, weights

from hfkv.core.files import HeaderInfo, ModelFiles, RepoFile, Target, TensorGroup
from hfkv.errors import (
    HfkvError,
    MalformedError,
    UnreadableError,
    UnsupportedError,
    UsageError,
)
from hfkv.sources import load
from hfkv.sources.http import Client

CONFIG = {"model_type": "llama", "num_hidden_layers": 2}
ONE = weights(("model.layers.0.w", "BF16", (4, 8), 64), ("model.layers.1.w", "BF16", (4, 8), 64))
FIRST = weights(("model.layers.0.w", "BF16", (4, 8), 64))
SECOND = weights(("model.layers.1.w", "BF16", (4, 8), 64), ("lm_head.weight", "F32", (2,), 8))
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
INDEX = {
    "metadata": {"total_size": 136},
    "weight_map": {
        "model.layers.0.w": SHARDS[0],
        "model.layers.1.w": SHARDS[1],
        "lm_head.weight": SHARDS[1],
    },
}
SHARDED = {
    "config.json": CONFIG,
    SHARDS[0]: FIRST,
    SHARDS[1]: SECOND,
    "model.safetensors.index.json": INDEX,
}


def codes(files: ModelFiles) -> list[str]:
    """Return what was odd."""
    return [problem.code for problem in files.problems]


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
    hub_server.add("org/one", {"config.json": CONFIG, "model.safetensors": ONE})
    load("org/one")
    assert sorted(hub_server.paths("hub")) == [
        "/api/models/org/one/revision/main",
        f"/api/resolve-cache/models/org/one/{hub_server.repos['org/one'].sha}/config.json",
        "/org/one/resolve/main/config.json",
        "/org/one/resolve/main/model.safetensors",
    ]
    assert hub_server.paths("cdn") == ["/org/one/model.safetensors"]


def test_shards_index_and_side_files(hub_server: HubServer) -> None:
    """All shards are read, the index is compared, and side files that exist are kept."""
    side = {"eos_token_id": 2}
    hub_server.add("org/two", {**SHARDED, "generation_config.json": side})
    files = load("org/two")
    assert files.weight_files == SHARDS
    assert [(g.name, g.count) for g in files.tensors] == [
        ("lm_head.weight", 1),
        ("model.layers.{}.w", 2),
    ]
    assert files.side == {"generation_config.json": side}
    assert files.index is not None
    assert files.index.total_size == 136
    assert files.index.files == {SHARDS[0]: 1, SHARDS[1]: 2}
    assert files.problems == ()


def test_weights_are_read_at_the_commit_of_the_listing(hub_server: HubServer) -> None:
    """What the listing led to is asked at its commit, not at the moving branch."""
    repo = hub_server.add("org/two", SHARDED)
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
    hub_server.add("org/two", SHARDED)
    told: list[tuple[int, int, str]] = []
    load("org/two", progress=lambda *args: told.append(args))
    assert told == [(0, 2, "headers"), (1, 2, "headers"), (2, 2, "headers")]


# --- how much is read -----------------------------------------------------------------------


def sized_header(length: int) -> Sparse:
    """Return a file whose header JSON is exactly `length` bytes long."""
    plain = weights(("model.layers.0.w", "BF16", (4, 8), 64))
    return weights(("model.layers.0.w", "BF16", (4, 8), 64), pad=length - (len(plain.first) - 8))


@pytest.mark.parametrize("first", [32_768, 98_304, 100_000])
@pytest.mark.parametrize("more", range(-9, 2))
def test_header_as_long_as_the_first_read(hub_server: HubServer, first: int, more: int) -> None:
    """Headers of n-9 … n+1 bytes around a first read of n bytes are read to the byte."""
    file = sized_header(first + more)
    hub_server.add("org/one", {"config.json": CONFIG, "model.safetensors": file})
    files = load("org/one")
    assert files.headers[0].header_bytes == first + more + 8
    assert sum(sum(seen.sent) for seen in hub_server.seen if seen.side == "cdn") == max(
        min(len(file), 32768), first + more + 8
    )


def test_many_shards_get_a_longer_first_read(hub_server: HubServer) -> None:
    """Above 8 shards, 96 kB are read at once: one request a shard for a 72 kB header."""
    names = [f"model-{i:05}-of-00009.safetensors" for i in range(1, 10)]
    files = {
        name: weights((f"model.layers.{i}.w", "U8", (500_000,), 500_000), pad=72_000)
        for i, name in enumerate(names)
    }
    hub_server.add("org/nine", {"config.json": CONFIG, **files})
    assert load("org/nine").tensors[0].count == 9
    assert sorted(hub_server.paths("cdn")) == [f"/org/nine/{name}" for name in names]
    ranges = {seen.headers["range"] for seen in hub_server.seen if seen.side == "cdn"}
    assert ranges == {"bytes=0-98303"}


def test_second_read_is_the_exact_rest(hub_server: HubServer) -> None:
    """A header longer than the first read costs one more, from the same signed address."""
    file = sized_header(40_000)
    hub_server.add("org/one", {"config.json": CONFIG, "model.safetensors": file})
    load("org/one")
    asked = [seen.headers["range"] for seen in hub_server.seen if seen.side == "cdn"]
    assert asked == ["bytes=0-32767", "bytes=32768-40007"]
    assert hub_server.paths("hub").count("/org/one/resolve/main/model.safetensors") == 1


def test_expired_signature_is_resolved_again(hub_server: HubServer) -> None:
    """When the CDN refuses the second read, the Hub is asked for a new address."""
    repo = hub_server.add(
        "org/one", {"config.json": CONFIG, "model.safetensors": sized_header(40_000)}
    )
    hub_server.fault("safetensors", "status", side="cdn", ranged="=32768-", status=403, times=1)
    assert load("org/one").headers[0].header_bytes == 40_008
    assert hub_server.paths("hub").count(f"/org/one/resolve/{repo.sha}/model.safetensors") == 1


def test_cdn_that_refuses_for_good(hub_server: HubServer) -> None:
    """A refusal by the CDN is told as the CDN's, not as the Hub's."""
    hub_server.add("org/two", SHARDED)
    hub_server.fault("safetensors", "status", side="cdn", status=403)
    with pytest.raises(UnreadableError) as caught:
        load("org/two")
    cdn = hub_server.base("cdn").removeprefix("http://")
    assert caught.value.what == f"{cdn} answers 403"


def test_ranges_never_ask_for_compression(hub_server: HubServer) -> None:
    """With gzip accepted, the Hub ignores a Range: ranged requests ask for identity."""
    hub_server.add("org/two", SHARDED)
    load("org/two")
    for seen in hub_server.seen:
        ranged = "range" in seen.headers
        assert seen.headers["accept-encoding"] == ("identity" if ranged else "gzip")


def test_ignored_range_on_a_huge_file(
    hub_server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a 200 answer of 5 GB, at most 1 MiB more than the header is taken from the socket."""
    received: list[int] = []
    recv_into = socket.socket.recv_into

    def counted(self: socket.socket, *args: Any) -> int:
        received.append(recv_into(self, *args))
        return received[-1]

    huge = weights(("model.layers.0.w", "U8", (5_000_000_000,), 5_000_000_000), pad=40_000)
    hub_server.add("org/huge", {"config.json": CONFIG, "model.safetensors": huge})
    hub_server.fault("safetensors", "ignore_range", side="cdn")
    monkeypatch.setattr(socket.socket, "recv_into", counted)
    files = load("org/huge", timeout=20)
    assert files.headers[0].data_bytes == 5_000_000_000
    assert 40_000 < sum(received) < 40_000 + 2**20


def test_lying_header_length(hub_server: HubServer) -> None:
    """A header that claims 2**63 bytes is refused after the first read."""
    lie = Sparse((2**63).to_bytes(8, "little"), 1_000_000)
    hub_server.add("org/lie", {"config.json": CONFIG, "model.safetensors": lie})
    with pytest.raises(MalformedError) as caught:
        load("org/lie")
    assert caught.value.message == (
        "model.safetensors: its header claims 9,223,372,036,854,775,808 bytes, "
        "and safetensors allows 100,000,000"
    )
    assert len(hub_server.paths("cdn")) == 1


def test_header_longer_than_its_file(hub_server: HubServer) -> None:
    """A claim that the listed size contradicts costs no second request."""
    lie = Sparse((24_000_000).to_bytes(8, "little"), 40_000)
    hub_server.add("org/lie", {"config.json": CONFIG, "model.safetensors": lie})
    with pytest.raises(MalformedError) as caught:
        load("org/lie")
    assert caught.value.message == (
        "model.safetensors: its header claims 24,000,000 bytes, and the whole file has 40,000"
    )
    assert len(hub_server.paths("cdn")) == 1


def test_empty_weights_file(hub_server: HubServer) -> None:
    """A file of no bytes is known from the listing."""
    hub_server.add("org/two", {**SHARDED, SHARDS[0]: b""})
    with pytest.raises(MalformedError) as caught:
        load("org/two")
    assert caught.value.message == f"{SHARDS[0]}: empty (0 bytes): not a safetensors file"


def test_size_that_contradicts_the_listing(hub_server: HubServer) -> None:
    """Listing and CDN must agree on how long the file is."""
    hub_server.add("org/one", {"config.json": CONFIG, "model.safetensors": ONE})
    hub_server.repos["org/one"].info["siblings"] = [
        {"rfilename": "config.json", "size": 10},
        {"rfilename": "model.safetensors", "size": 999_999},
    ]
    with pytest.raises(MalformedError) as caught:
        load("org/one")
    assert caught.value.message == (
        f"model.safetensors: listed with 999,999 bytes, and served with {len(ONE)}"
    )


def test_listing_without_sizes(hub_server: HubServer) -> None:
    """A mirror that lists no sizes is read all the same; sizes then come from the CDN."""
    hub_server.add("org/two", SHARDED)
    hub_server.repos["org/two"].info["siblings"] = [{"rfilename": name} for name in SHARDED]
    files = load("org/two")
    assert sum(header.data_bytes for header in files.headers) == 136
    assert {file.size for file in files.files} == {None}


# --- which files ------------------------------------------------------------------------------


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


def test_huge_index_is_not_read(hub_server: HubServer) -> None:
    """Where the names tell which files belong, an index of many megabytes is left alone."""
    big = {"weight_map": {f"x.{i}": "y" * 100 for i in range(90_000)}}
    hub_server.add("org/two", {**SHARDED, "model.safetensors.index.json": big})
    files = load("org/two")
    assert files.index is None
    assert files.weight_files == SHARDS
    assert not any("index" in seen.path for seen in hub_server.seen)


def test_index_that_disagrees(hub_server: HubServer) -> None:
    """A wrong total, a missing file and a tensor in no file are told, and do not stop it."""
    index = {
        "metadata": {"total_size": 1},
        "weight_map": {**INDEX["weight_map"], "ghost": SHARDS[0]},  # type: ignore[dict-item]
    }
    hub_server.add("org/two", {**SHARDED, "model.safetensors.index.json": index})
    assert codes(load("org/two")) == ["index-mismatch", "index-total-mismatch"]
    index["weight_map"]["far"] = "model-00003-of-00003.safetensors"  # type: ignore[index]
    hub_server.add("org/two", {**SHARDED, "model.safetensors.index.json": index})
    assert codes(load("org/two")) == ["missing-shard", "index-mismatch"]


@pytest.mark.parametrize("name", ["../x.safetensors", "/etc/passwd", "a\\b", "http://x/y", "a\tb"])
def test_hostile_file_name_in_the_index(hub_server: HubServer, name: str) -> None:
    """A name that could mean a file elsewhere is refused, and never asked for."""
    hub_server.add(
        "org/two", {**SHARDED, "model.safetensors.index.json": {"weight_map": {"w": name}}}
    )
    with pytest.raises(MalformedError) as caught:
        load("org/two")
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


# --- who may read -----------------------------------------------------------------------------

GATED = {"config.json": CONFIG, "model.safetensors": ONE}
PUBLIC = {"safetensors": {"parameters": {"BF16": 64}, "total": 64}, "config": {"model_type": "x"}}


def test_token_goes_to_the_hub_alone(
    hub_server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a granted token a gated repository is read; the CDN never sees the token."""
    monkeypatch.setenv("HF_TOKEN", GRANTED)
    hub_server.add("org/gated", GATED, gated="manual")
    assert load("org/gated").config == CONFIG
    tokens = {(seen.side, seen.token) for seen in hub_server.seen}
    assert tokens == {("hub", f"Bearer {GRANTED}"), ("cdn", None)}


HINT = "accept its license at {0}/org/gated, then run `hf auth login` or set HF_TOKEN"
WAYS_IN: dict[str | None, tuple[str, str]] = {
    None: (
        "org/gated is gated",
        HINT + "; or give its config.json with --config FILE",
    ),
    VALID: (
        "org/gated is gated, and the account of the token has no access to it",
        "ask for it at {0}/org/gated; or give its config.json with --config FILE",
    ),
    FINE_GRAINED: (
        "the token from --token is fine-grained and excludes gated repositories",
        "allow them at https://huggingface.co/settings/tokens",
    ),
}


@pytest.mark.parametrize("token", WAYS_IN)
def test_gated_without_access(hub_server: HubServer, token: str | None) -> None:
    """The public metadata is kept for the weights, and the hint says how to get in."""
    hub_server.add("org/gated", GATED, gated="auto", info=PUBLIC)
    files = load("org/gated", token=token)
    message, hint = WAYS_IN[token]
    assert files.hub == {"gated": "auto", **PUBLIC}
    assert files.config is None
    assert files.weight_files == ("model.safetensors",)
    assert files.files[1].size == len(ONE)
    assert files.tensors == ()
    assert [(p.code, p.message, p.hint) for p in files.problems] == [
        ("gated", message, hint.format(hub_server.endpoint))
    ]


def test_gated_and_the_token_is_not_known(hub_server: HubServer) -> None:
    """The Hub answers 401 for a token it does not know, and 403 for one without access."""
    hub_server.add("org/gated", GATED, gated="auto")
    headers = {"X-Error-Code": "GatedRepo"}
    hub_server.fault("/resolve/", "status", status=401, headers=headers)
    assert [(p.message, p.hint) for p in load("org/gated", token=VALID).problems] == [
        (
            "org/gated is gated, and the token from --token was not accepted",
            "it may have expired or been revoked: run `hf auth login`",
        )
    ]


def test_gated_with_a_config_from_elsewhere(hub_server: HubServer, tmp_path: Path) -> None:
    """`--config FILE` gives a gated model a cache size, its weights from the metadata."""
    hub_server.add("org/gated", GATED, gated="auto", info=PUBLIC)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    files = load("org/gated", config_path=str(path))
    assert files.config == CONFIG
    assert files.hub["safetensors"] == PUBLIC["safetensors"]
    assert codes(files) == ["gated"]


def test_rejected_token_on_a_public_repository(hub_server: HubServer) -> None:
    """The Hub refuses a bad token even for what is public; it is then read without one."""
    hub_server.add("org/one", GATED)
    files = load("org/one", token="hf_revoked")
    assert files.config == CONFIG
    assert [(p.code, p.message, p.hint) for p in files.problems] == [
        (
            "token-rejected",
            "the Hub rejects the token from --token",
            "it may have expired or been revoked: unset it, or run `hf auth login`",
        )
    ]


REFUSALS: dict[str, tuple[dict[str, Any], str, type[HfkvError], str]] = {
    "nobody, missing or private": (
        {},
        "org/none is not on {host}, or it is private",
        UnreadableError,
        "not-found",
    ),
    "known, missing or private": (
        {"token": VALID},
        "org/none is not on {host}, or the token has no access to it",
        UnreadableError,
        "not-found",
    ),
    "bad token, missing or private": (
        {"token": "hf_revoked"},
        "the Hub rejects the token from --token",
        UnreadableError,
        "token-rejected",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refused_repository(hub_server: HubServer, case: str) -> None:
    """Missing and private look alike from outside; what to do depends on the token."""
    given, message, kind, code = REFUSALS[case]
    host = hub_server.endpoint.removeprefix("http://")
    with pytest.raises(kind) as caught:
        load("org/none", **given)
    assert caught.value.message == message.format(host=host)
    assert caught.value.code == code
    hub_server.add("org/none", GATED, private=True)
    with pytest.raises(kind) as caught:
        load("org/none", **given)
    assert caught.value.message == message.format(host=host)


def test_private_repository_with_its_token(hub_server: HubServer) -> None:
    """A private repository is read like any other by who may."""
    hub_server.add("org/own", GATED, private=True)
    assert load("org/own", token=GRANTED).config == CONFIG


def test_unknown_revision(hub_server: HubServer) -> None:
    """The sentence names the revision and where the existing ones are listed."""
    hub_server.add("org/one", GATED)
    with pytest.raises(UnreadableError) as caught:
        load("org/one@v9")
    assert caught.value.message == "org/one has no revision 'v9'"
    assert caught.value.hint == (
        f"its branches and tags are listed at {hub_server.endpoint}/org/one/tree/main"
    )


def test_unknown_file(hub_server: HubServer) -> None:
    """A file that was named and is not there."""
    hub_server.add("org/one", GATED)
    with pytest.raises(UnreadableError) as caught:
        load("org/one:other.safetensors")
    assert caught.value.message == "org/one has no file other.safetensors at revision main"


def test_disabled_repository(hub_server: HubServer) -> None:
    """A repository that was taken down."""
    hub_server.add("org/one", GATED, disabled=True)
    with pytest.raises(UnreadableError) as caught:
        load("org/one")
    assert caught.value.message == "org/one was disabled by the Hub or its owner"


ANSWERS: dict[str, tuple[dict[str, Any], type[HfkvError], str]] = {
    "rate limit": (
        {"status": 429, "headers": {"RateLimit": '"resolvers";r=0;t=100'}},
        UnreadableError,
        "{host} limits the rate of requests; it resets in 101 s",
    ),
    "rate limit without a time, late": (
        {"status": 429, "headers": {"Retry-After": "3600"}},
        UnreadableError,
        "{host} limits the rate of requests; it resets in 3600 s",
    ),
    "forbidden": (
        {"status": 403, "headers": {"X-Error-Message": "Too \x1b[31mbad"}},
        UnreadableError,
        "org/one: the Hub forbids it: Too  [31mbad",
    ),
    "bad request": (
        {"status": 400, "body": b'{"error": "Invalid rev"}'},
        UsageError,
        "org/one: the Hub does not understand the request: Invalid rev",
    ),
    "teapot": ({"status": 418}, UnreadableError, "{host} answers 418"),
    "error body that is no JSON": (
        {"status": 400, "body": b"{[["},
        UsageError,
        "org/one: the Hub does not understand the request: no reason given",
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_other_answers(hub_server: HubServer, case: str) -> None:
    """Every other status has a sentence, and the Hub's own words are made safe to print."""
    settings, kind, message = ANSWERS[case]
    hub_server.add("org/one", GATED)
    hub_server.fault("/api/models", "status", **settings)
    with pytest.raises(kind) as caught:
        load("org/one")
    host = hub_server.endpoint.removeprefix("http://")
    assert caught.value.message == message.format(host=host)


def test_errors_that_last(hub_server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that keeps failing is named, and its status too."""
    monkeypatch.setattr("hfkv.sources.http.random.uniform", lambda *_: 0.001)
    hub_server.add("org/one", GATED)
    hub_server.fault("config.json", "status", status=503)
    with pytest.raises(UnreadableError) as caught:
        load("org/one")
    host = hub_server.endpoint.removeprefix("http://")
    assert caught.value.message == f"{host} answers 503, and trying again did not help"
    assert caught.value.hint == "see https://status.huggingface.co, or use --offline"


def test_file_shorter_than_listed(hub_server: HubServer) -> None:
    """A CDN that has fewer bytes than the Hub lists answers 416."""
    hub_server.add("org/one", {**GATED, "model.safetensors": sized_header(40_000)})
    hub_server.fault("safetensors", "status", side="cdn", ranged="=32768-", status=416)
    with pytest.raises(MalformedError) as caught:
        load("org/one")
    assert caught.value.message == "model.safetensors: the file is shorter than its header says"


@pytest.mark.parametrize("match", ["/api/models", "model.safetensors"])
def test_deadline_of_the_whole_run(hub_server: HubServer, match: str) -> None:
    """However many requests hang, the run ends when it was told to."""
    hub_server.add("org/one", GATED)
    hub_server.fault(match, "hang")
    started = time.monotonic()
    with pytest.raises(UnreadableError) as caught:
        load("org/one", timeout=0.5)
    assert caught.value.code == "timeout"
    assert time.monotonic() - started < 2


def test_deadline_even_where_nothing_can_be_interrupted(
    hub_server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that takes for ever to resolve does not keep the run from ending."""
    hub_server.add("org/one", GATED)
    stuck = threading.Event()
    monkeypatch.setattr(Client, "fetch", lambda *_, **__: stuck.wait(20))
    with pytest.raises(UnreadableError) as caught:
        load("org/one", timeout=0.2)
    stuck.set()
    assert caught.value.message == f"no complete answer from {hub_server.endpoint} within 0.2 s"
    assert caught.value.hint == "try again, or give it longer with --timeout SECONDS"


@pytest.mark.parametrize("match", ["/api/models", "config.json"])
def test_web_page_instead_of_json(hub_server: HubServer, match: str) -> None:
    """A login page is no Hub."""
    hub_server.add("org/one", GATED)
    hub_server.fault(match, "html")
    with pytest.raises(UnreadableError) as caught:
        load("org/one")
    host = hub_server.endpoint.removeprefix("http://")
    assert caught.value.message == f"{host} did not answer like a Hub"


LISTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "no commit": ({"sha": None}, "model info: sha: expected a string, got None"),
    "odd commit": ({"sha": "../x"}, "model info: sha: not a commit: '../x'"),
    "no name": ({"id": 5}, "model info: id: expected a string, got 5"),
    "no list": ({"siblings": {}}, "model info: siblings: expected a list"),
    "a string": ({"siblings": ["x"]}, "model info: siblings[0]: expected an object, got 'x'"),
    "no path": (
        {"siblings": [{"size": 1}]},
        "model info: siblings[0].rfilename: expected a string, got None",
    ),
    "NaN": (
        {"siblings": [{"rfilename": "a", "size": float("nan")}]},
        "model info: siblings[0].size: expected a size, got nan",
    ),
    "negative": (
        {"siblings": [{"rfilename": "a", "size": -1}]},
        "model info: siblings[0].size: expected a size, got -1",
    ),
}


@pytest.mark.parametrize("case", LISTINGS)
def test_listing_of_wrong_types(hub_server: HubServer, case: str) -> None:
    """What the Hub says about itself is checked like any input."""
    info, message = LISTINGS[case]
    hub_server.add("org/one", GATED, info=info)
    with pytest.raises(MalformedError) as caught:
        load("org/one")
    assert caught.value.message == message


CONFIGS: dict[str, tuple[bytes, str]] = {
    "a list": (b"[]", "config.json: expected a JSON object at the top, got list"),
    "cut off": (
        b'{"a": ',
        "config.json: not valid JSON (Expecting value, line 1 column 7)",
    ),
    "not text": (b'{"\xff": 1}', "config.json: not UTF-8 text (byte 2)"),
    "empty": (b"", "config.json: not valid JSON (Expecting value, line 1 column 1)"),
    "deep": (
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "config.json: its JSON is nested too deeply",
    ),
    "a bit deep": (
        b'{"a":' + b"[" * 100 + b"]" * 100 + b"}",
        "config.json: its JSON is nested too deeply",
    ),
    "long number": (
        b'{"a":' + b"9" * 5000 + b"}",
        "config.json: a number in it has thousands of digits",
    ),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_broken_config(hub_server: HubServer, case: str) -> None:
    """A config that is no JSON object is malformed, however it is broken."""
    raw, message = CONFIGS[case]
    hub_server.add("org/one", {**GATED, "config.json": raw})
    with pytest.raises(MalformedError) as caught:
        load("org/one")
    assert caught.value.message == message
