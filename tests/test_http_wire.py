"""What headers, redirects and bodies mean, without a network."""

from __future__ import annotations

import gzip
import time

import pytest
from hub_client import failure, host, small
from hub_server import HubServer

from hfkv.errors import UnreadableError
from hfkv.sources.bodies import BadBodyError, read_body
from hfkv.sources.http import Client
from hfkv.sources.wire import next_hop, origin_of, promised, retry_after

RETRY_AFTER: dict[str, tuple[dict[str, str], float | None]] = {
    "nothing": ({}, None),
    "seconds": ({"Retry-After": " 7 "}, 7),
    "rubbish": ({"Retry-After": "soon"}, None),
    "no year": ({"Retry-After": "Mon, 01 Jan 99999999999 00:00:00 GMT"}, None),
    "no zone": ({"Retry-After": f"Mon, 01 Jan 2020 00:00:00 +{'9' * 20}"}, None),
    "past date": ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
    "limit reached": ({"RateLimit": '"api";r=0;t=55', "Retry-After": "7"}, 56),
    "limit not reached": ({"RateLimit": '"api";r=3;t=55'}, None),
    "limit not reached, r=01": ({"RateLimit": '"api";r=03;t=55'}, None),
}


@pytest.mark.parametrize("case", RETRY_AFTER)
def test_retry_after(case: str) -> None:
    """RateLimit and both forms of Retry-After give seconds."""
    headers, expected = RETRY_AFTER[case]
    assert retry_after(headers) == expected


HOPS: dict[str, tuple[str, str]] = {
    "relative": ("https://h.co/a/b?c", "https://h.co/x"),
    "other host": ("https://h.co/a", "https://cdn.co/x"),
    "https to http": (
        "https://h.co/a",
        "h.co redirects from https to http, which hfkv does not follow",
    ),
    "a file": ("https://h.co/a", "h.co redirects to an address that is not http"),
    "no host": ("https://h.co/a", "https://h.co/x"),
    "bad port": ("https://h.co:8443/a", "h.co:8443 redirects to an address that is not http"),
    "bad brackets": ("https://h.co/a", "h.co redirects to an address that is not http"),
}


LOCATIONS = {
    "relative": "/x",
    "other host": "https://cdn.co/x",
    "https to http": "http://h.co/x",
    "a file": "file:///etc/passwd",
    "no host": "https:///x",
    "bad port": "https://h.co:99999/x",
    "bad brackets": "https://[::1/x",
}


@pytest.mark.parametrize("case", HOPS)
def test_where_a_redirect_may_lead(case: str) -> None:
    """Only to http(s), never down from https, and nothing odd crashes."""
    url, expected = HOPS[case]
    try:
        result = next_hop(url, LOCATIONS[case], {url})
    except UnreadableError as error:
        result = error.message
    assert result == expected


def test_origin() -> None:
    """Scheme, host and port together; the default port is the same as none."""
    assert origin_of("https://H.co/x") == origin_of("https://h.co:443")
    assert origin_of("http://h.co") != origin_of("https://h.co")
    assert origin_of("https://h.co:444") != origin_of("https://h.co")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("bytes 10-19/100", (10, 100)),
        ("bytes 10-19/*", (10, None)),
        ("bytes 10-14/*", (5, None)),
        ("bytes 10-14/15", (5, 15)),
        ("bytes 10-14/100", "fewer bytes than those asked for"),
        ("bytes 10-29/100", "fewer bytes than those asked for"),
        ("bytes 0-9/100", "other bytes than those asked for"),
        ("bytes */100", "other bytes than those asked for"),
        ("", "other bytes than those asked for"),
        ("bytes ١٠-١٩/100", "other bytes than those asked for"),
    ],
)
def test_content_range(given: str, expected: object) -> None:
    """What a 206 answer to `bytes=10-19` may say of itself."""
    try:
        result: object = promised({"Content-Range": given}, 10, 20)
    except BadBodyError as error:
        result = str(error)
    assert result == expected


def test_more_than_makes_sense(hub: HubServer, client: Client) -> None:
    """A body longer than its kind can be is not read to its end."""
    hub.add("o/big", {"a.json": b"[" + b" " * 9_000_000})
    url = f"{hub.endpoint}/o/big/resolve/main/a.json"
    assert failure(client, url, limit=1000).message == (
        f"{host(hub)} sends more than the 1,000 bytes that make sense here"
    )
    assert len(client.fetch(url, limit=9_000_001).body) == 9_000_001


def test_bomb(hub: HubServer, client: Client) -> None:
    """A small body that inflates to a great one is inflated only to the limit."""
    bomb = gzip.compress(bytes(50_000_000), compresslevel=1)
    hub.fault("a.json", "status", status=200, body=bomb, headers={"Content-Encoding": "gzip"})
    started = time.process_time()
    assert failure(client, small(hub), limit=1_000_000).code == "too-large"
    assert time.process_time() - started < 1


def test_unknown_encoding(hub: HubServer, client: Client) -> None:
    """An encoding nobody asked for is a fault of the server."""
    hub.fault("a.json", "status", status=200, body=b"x", headers={"Content-Encoding": "br"})
    assert failure(client, small(hub)).message == f"{host(hub)} sends an unknown encoding ('br')"


@pytest.mark.parametrize("cut", [5, -1])
def test_damaged_compression(hub: HubServer, client: Client, cut: int) -> None:
    """A compressed body that ends early is noticed even if its length is as announced."""
    body = gzip.compress(b'{"a": 1}')[:cut]
    hub.fault("a.json", "status", status=200, body=body, headers={"Content-Encoding": "gzip"})
    assert failure(client, small(hub)).message == (
        f"{host(hub)} sends a compressed body that ends too early"
    )
    hub.faults[0].body = b"no gzip"
    assert failure(client, small(hub)).message == (
        f"{host(hub)} sends a compressed body that is damaged"
    )


class Raw:
    """What the reader needs of urllib3's response."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, size: int, *, decode_content: bool) -> bytes:
        """Return the next bytes."""
        assert decode_content is False
        part, self.data = self.data[:size], self.data[size:]
        return part


@pytest.mark.parametrize(
    ("length", "limit", "expected"),
    [
        ("100000", 70_000, (70_000, False)),
        ("100000", 100_000, (100_000, True)),
        ("100000", 200_000, (100_000, True)),
        ("", 100_000, (100_000, True)),
        ("", 99_999, (99_999, False)),
        ("-5", 200_000, (100_000, True)),
        ("100001", 200_000, "a body that ends 1 byte too early"),
        ("100001", 100_000, "a body that ends 1 byte too early"),
    ],
)
def test_body_and_its_length(length: str, limit: int, expected: object) -> None:
    """Read up to the limit, say whether that was all, and notice what is missing."""
    try:
        body, ended = read_body(
            Raw(bytes(100_000)), {"Content-Length": length}, limit, lambda: None
        )
        result: object = (len(body), ended)
    except BadBodyError as error:
        result = str(error)
    assert result == expected
