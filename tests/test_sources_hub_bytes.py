"""How much of a weights file is read from the Hub: its header, and no more."""

from __future__ import annotations

import socket
from collections import Counter
from typing import Any

import pytest
from hub_models import (
    CONFIG,
    ONE,
    SHARDED,
    SHARDS,
    sized_header,
)
from hub_server import HubServer, Sparse, weights

from hfkv.errors import (
    MalformedError,
    UnreadableError,
)
from hfkv.sources import load


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
    loaded = load("org/nine")
    assert loaded.tensors[0].count == 9
    assert sorted(hub_server.paths("cdn")) == [f"/org/nine/{name}" for name in names]
    ranges = Counter(seen.headers["range"] for seen in hub_server.seen if seen.side == "cdn")
    longest = loaded.headers[0].header_bytes  # where eight are known already, the ninth needs less
    assert ranges.keys() <= {"bytes=0-98303", f"bytes=0-{longest + longest // 8 - 1}"}
    assert ranges["bytes=0-98303"] >= 8


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
    hub_server.add("org/two", SHARDED, bundles=False)
    hub_server.fault("safetensors", "status", side="cdn", status=403)
    with pytest.raises(UnreadableError) as caught:
        load("org/two")
    cdn = hub_server.base("cdn").removeprefix("http://")
    assert caught.value.what == f"{cdn} answers 403"


def test_ranges_never_ask_for_compression(hub_server: HubServer) -> None:
    """With gzip accepted, the Hub ignores a Range: ranged requests ask for identity."""
    hub_server.add("org/two", SHARDED, bundles=False)
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


def test_more_headers_than_any_model_has(
    hub_server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small headers of many files are limited together."""
    monkeypatch.setattr("hfkv.sources.repository._MAX_HEADERS", 150)
    hub_server.add("org/two", SHARDED, bundles=False)
    with pytest.raises(MalformedError, match=r"and 150 of one model$"):
        load("org/two")


def test_more_files_than_any_model_has(hub_server: HubServer) -> None:
    """A listing of 10,001 weights files leads to no request for any of them."""
    names = [f"model-{i:05}-of-10001.safetensors" for i in range(1, 10_002)]
    siblings = [{"rfilename": name, "size": 200} for name in ("config.json", *names)]
    hub_server.add("org/many-400B", {"config.json": CONFIG}, info={"siblings": siblings})
    with pytest.raises(MalformedError) as caught:
        load("org/many-400B")
    assert caught.value.message == "org/many-400B: 10,001 weights files, and 10,000 are read"
    assert not any("safetensors" in path for path in hub_server.paths("cdn"))
