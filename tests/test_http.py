"""The HTTP client: what is tried again, what is refused, and what is never sent."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hub_client import DATA, TOKEN, failure, host, large, small
from hub_server import GRANTED, HubServer

from hfkv.sources.http import Client


def test_whole_file(hub: HubServer, client: Client) -> None:
    """A small file comes through its redirect, inflated, with the commit of the Hub."""
    answer = client.fetch(small(hub))
    assert (answer.status, answer.body) == (200, b'{"a": 1}')
    assert answer.commit == hub.repos["o/n"].sha
    assert answer.headers["Content-Encoding"] == "gzip"


@pytest.mark.parametrize(
    ("start", "stop"), [(0, 10), (5, 6), (100, 70_000), (0, len(DATA)), (102_000, 999_999)]
)
def test_range(hub: HubServer, client: Client, start: int, stop: int) -> None:
    """The bytes asked for, or those up to the end; and the size of the whole file."""
    answer = client.fetch(large(hub), start, stop)
    assert answer.body == DATA[start:stop]
    assert answer.total == len(DATA)
    assert answer.commit == hub.repos["o/n"].sha


@pytest.mark.parametrize(("start", "stop"), [(0, 10), (5, 70_000)])
@pytest.mark.parametrize("kind", ["ignore_range", "gzip"])
def test_range_that_the_server_ignores(
    hub: HubServer, client: Client, kind: str, start: int, stop: int
) -> None:
    """The same bytes are cut out of a whole answer, compressed or not."""
    hub.fault("safetensors", "ignore_range", side="cdn")
    hub.faults[0].kind = kind
    answer = client.fetch(large(hub), start, stop)
    assert (answer.status, answer.body) == (200, DATA[start:stop])


def test_beyond_the_end(hub: HubServer, client: Client) -> None:
    """A range that begins after the end is the caller's to explain."""
    assert client.fetch(large(hub), 999_999, 1_000_000).status == 416


def test_connections_are_used_again(hub: HubServer, client: Client) -> None:
    """Ten requests in turn take two connections: one to the Hub, one to the CDN."""
    for _ in range(5):
        client.fetch(small(hub))
        client.fetch(large(hub), 0, 100)
    assert hub.connections == 2


def test_token_stays_with_its_origin(hub: HubServer, client: Client) -> None:
    """The CDN, another port of the same host, gets no Authorization."""
    client.fetch(large(hub), 0, 10)
    client.fetch(hub.base("cdn") + "/o/n/w.safetensors", 0, 10)
    tokens = [(seen.side, seen.token) for seen in hub.seen]
    assert tokens == [("hub", f"Bearer {GRANTED}"), ("cdn", None), ("cdn", None)]


def test_netrc_is_not_read(hub: HubServer, client: Client, tmp_path: Path) -> None:
    """Passwords that ~/.netrc holds for the host are nobody's business here."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NETRC", str(netrc))
        client.fetch(large(hub), 0, 10)
    assert {seen.token for seen in hub.seen} == {f"Bearer {GRANTED}", None}


def test_cookies_are_not_kept(hub: HubServer, client: Client) -> None:
    """A cookie that one answer sets is not in the next request."""
    hub.fault("a.json", "status", status=404, headers={"Set-Cookie": "id=1; Path=/"}, times=1)
    client.fetch(small(hub))
    client.fetch(small(hub))
    assert not any("cookie" in seen.headers for seen in hub.seen)


def test_messages_hold_no_secrets(hub: HubServer, client: Client) -> None:
    """Neither the token nor the signature of an address is ever part of a failure."""
    hub.fault("safetensors", "reset", side="cdn")
    error = failure(client, large(hub), 0, 10)
    for text in (error.message, str(error.hint), repr(error), repr(TOKEN), repr(client)):
        assert GRANTED not in text
        assert "s3cret" not in text


PASSING: dict[str, dict[str, Any]] = {
    "reset": {"kind": "reset"},
    "short body": {"kind": "short"},
    "wrong range": {"kind": "wrong_range"},
    "no range header": {"kind": "no_range_header"},
    "408": {"kind": "status", "status": 408},
    "429": {"kind": "status", "status": 429, "headers": {"Retry-After": "0"}},
    "500": {"kind": "status", "status": 500},
    "502": {"kind": "status", "status": 502},
    "503": {"kind": "status", "status": 503},
    "504": {"kind": "status", "status": 504},
    "empty 206": {
        "kind": "status",
        "status": 206,
        "headers": {"Content-Range": "bytes 0-99/102400"},
    },
}


@pytest.mark.parametrize("side", ["hub", "cdn"])
@pytest.mark.parametrize("case", PASSING)
def test_passing_fault(hub: HubServer, client: Client, case: str, side: str) -> None:
    """Three faults in a row, then a right answer: the right answer is what counts."""
    settings = PASSING[case]
    if side == "hub" and settings["kind"] not in {"reset", "status"}:
        side = "cdn"  # faults of ranged answers
    hub.fault("safetensors", times=3, side=side, **settings)
    assert client.fetch(large(hub), 0, 100).body == DATA[:100]


LASTING = {
    "reset": "the connection to {cdn} breaks off",
    "short": "the connection to {cdn} breaks off",
    "wrong_range": "{cdn} sends other bytes than those asked for",
    "no_range_header": "{cdn} sends other bytes than those asked for",
}


@pytest.mark.parametrize("kind", LASTING)
def test_lasting_fault(hub: HubServer, client: Client, kind: str) -> None:
    """After four tries the sentence names the server that fails, which is the CDN."""
    hub.fault("safetensors", kind, side="cdn")
    message = LASTING[kind].format(cdn=host(hub, "cdn"))
    assert failure(client, large(hub), 0, 100).message == message
    assert hub.faults[0].times == 1_000_000 - 4


def test_lasting_error_is_an_answer(hub: HubServer, client: Client) -> None:
    """After four tries a 503 is handed on, for the caller to explain."""
    hub.fault("a.json", "status", status=503)
    assert client.fetch(small(hub)).status == 503
    assert len(hub.seen) == 4


def test_other_errors_are_not_tried_again(hub: HubServer, client: Client) -> None:
    """A 404 stays a 404."""
    assert client.fetch(f"{hub.endpoint}/o/n/resolve/main/none").status == 404
    assert len(hub.seen) == 1


def test_retry_after_is_honoured(hub: HubServer, client: Client) -> None:
    """The server says one second, so the next request comes a second later."""
    hub.fault("a.json", "status", status=429, headers={"Retry-After": "1"}, times=1)
    started = time.monotonic()
    assert client.fetch(small(hub)).status == 200
    assert time.monotonic() - started >= 1


def test_long_wait_is_not_begun(hub: HubServer, client: Client) -> None:
    """A wait beyond the deadline ends at once, with the answer that asked for it."""
    hub.fault("a.json", "status", status=429, headers={"Retry-After": "20"})
    started = time.monotonic()
    assert client.fetch(small(hub)).status == 429
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("kind", ["hang", "drip"])
def test_deadline(hub: HubServer, kind: str) -> None:
    """A silent server and one that drips bytes both end with the deadline."""
    hub.fault("a.json", kind)
    started = time.monotonic()
    with Client(hub.endpoint, token=None, timeout=0.6, connections=1) as client:
        error = failure(client, small(hub))
    assert time.monotonic() - started < 2
    assert error.code == "timeout"
    if kind == "drip":
        assert error.message == f"no complete answer from {hub.endpoint} within 0.6 s"


def test_no_time_at_all(hub: HubServer) -> None:
    """A deadline that has passed asks nothing."""
    with Client(hub.endpoint, token=None, timeout=0, connections=1) as client:
        assert failure(client, small(hub)).code == "timeout"
    assert hub.seen == []


def test_redirect_in_a_circle(hub: HubServer, client: Client) -> None:
    """A redirect to itself is noticed at once."""
    hub.fault("a.json", "loop")
    assert failure(client, small(hub)).message == f"{host(hub)} redirects in a circle"
    assert len(hub.seen) == 1


def test_many_redirects(hub: HubServer, client: Client) -> None:
    """Five redirects are followed, a sixth is not."""
    for step in range(7):
        there = f"{hub.endpoint}/step{step + 1}"
        hub.fault(f"step{step}$", "status", status=302, headers={"Location": there})
    hub.fault("step6$", "status", status=200, body=b"never")
    assert failure(client, f"{hub.endpoint}/step0").message.endswith("redirects in a circle")
    assert len(hub.seen) == 6
    assert client.fetch(f"{hub.endpoint}/step2").status == 404
