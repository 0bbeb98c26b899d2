"""The HTTP client: what is tried again, what is refused, and what is never sent."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import responses
import urllib3.exceptions
from hub_server import GRANTED, HubServer, Sparse

from hfkv.errors import UnreadableError, UsageError
from hfkv.sources.bodies import BadBodyError, read_body
from hfkv.sources.environment import Token
from hfkv.sources.http import Answer, Client
from hfkv.sources.wire import next_hop, origin_of, promised, retry_after

TOKEN = Token(GRANTED, "HF_TOKEN")
DATA = bytes(range(256)) * 400  # 102,400 bytes


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hfkv.sources.http.random.uniform", lambda *_: 0.01)


@pytest.fixture
def hub(hub_server: HubServer) -> HubServer:
    """Serve one small and one large file."""
    hub_server.add("o/n", {"a.json": b'{"a": 1}', "w.safetensors": DATA})
    return hub_server


@pytest.fixture
def client(hub: HubServer) -> Iterator[Client]:
    """Return a client of that Hub with a token and ten seconds."""
    with Client(hub.endpoint, token=TOKEN, timeout=10, connections=4) as made:
        yield made


def small(hub: HubServer) -> str:
    """Return the address of the small file."""
    return f"{hub.endpoint}/o/n/resolve/main/a.json"


def large(hub: HubServer) -> str:
    """Return the address of the large file."""
    return f"{hub.endpoint}/o/n/resolve/main/w.safetensors"


def host(hub: HubServer, side: str = "hub") -> str:
    """Return host and port as messages name them."""
    return hub.base(side).removeprefix("http://")


def failure(client: Client, url: str, *args: Any, **kwargs: Any) -> UnreadableError:
    """Return the failure that a request ends with."""
    with pytest.raises(UnreadableError) as caught:
        client.fetch(url, *args, **kwargs)
    return caught.value


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


# --- the token and other secrets ---------------------------------------------------------------


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


# --- trying again -------------------------------------------------------------------------------

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


RETRY_AFTER: dict[str, tuple[dict[str, str], float | None]] = {
    "nothing": ({}, None),
    "seconds": ({"Retry-After": " 7 "}, 7),
    "rubbish": ({"Retry-After": "soon"}, None),
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


# --- the deadline -------------------------------------------------------------------------------


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


# --- redirects ----------------------------------------------------------------------------------


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


# --- bodies -------------------------------------------------------------------------------------


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
        ("100001", 200_000, "a body that ends 1 bytes too early"),
        ("100001", 100_000, "a body that ends 1 bytes too early"),
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


# --- the network --------------------------------------------------------------------------------


def nested(error: BaseException) -> requests.ConnectionError:
    """Return an error as requests raises it: wrapped, the real one inside."""
    pool = urllib3.exceptions.MaxRetryError(None, "/", error)  # type: ignore[arg-type]
    return requests.ConnectionError(pool)


CAUSES: dict[str, tuple[BaseException, str, str | None, int]] = {
    "dns": (
        nested(socket.gaierror(socket.EAI_NONAME, "Name or service not known")),
        "the name hub.test cannot be resolved",
        "check HF_ENDPOINT, set in the environment",
        1,
    ),
    "dns, for now": (
        nested(socket.gaierror(socket.EAI_AGAIN, "Temporary failure")),
        "the name hub.test cannot be resolved",
        "check HF_ENDPOINT, set in the environment",
        4,
    ),
    "certificate": (
        requests.exceptions.SSLError(ssl.SSLCertVerificationError(1, "self-signed")),
        "the certificate of hub.test cannot be verified",
        "behind a company proxy, set REQUESTS_CA_BUNDLE to its CA file",
        1,
    ),
    "tls": (
        requests.exceptions.SSLError(ssl.SSLError(1, "wrong version number")),
        "no secure connection to hub.test",
        "check HF_ENDPOINT, set in the environment",
        4,
    ),
    "proxy": (
        requests.exceptions.ProxyError("407"),
        "the proxy does not lead to hub.test",
        "check HTTPS_PROXY and NO_PROXY",
        4,
    ),
    "connect timeout": (
        requests.ConnectTimeout("slow"),
        "hub.test does not answer",
        "check HF_ENDPOINT, set in the environment",
        4,
    ),
    "refused": (
        nested(ConnectionRefusedError(111, "refused")),
        "hub.test refuses the connection",
        "check HF_ENDPOINT, set in the environment",
        4,
    ),
    "no route": (
        nested(OSError(101, "Network is unreachable")),
        "there is no way to hub.test",
        "check HF_ENDPOINT, set in the environment",
        4,
    ),
    "anything else": (
        requests.exceptions.InvalidSchema("socks"),
        "the connection to hub.test breaks off",
        "check HF_ENDPOINT, set in the environment",
        4,
    ),
}


@pytest.mark.parametrize("case", CAUSES)
def test_no_answer(case: str) -> None:
    """Each cause has its own sentence; only what may pass is tried again."""
    cause, message, hint, tries = CAUSES[case]
    with responses.RequestsMock() as mock:
        mock.get("https://hub.test/a", body=cause)
        with Client("https://hub.test", token=None, timeout=5, connections=1) as client:
            error = failure(client, "https://hub.test/a")
        assert len(mock.calls) == tries
    assert (error.message, error.hint) == (message, hint)


def test_nobody_listens() -> None:
    """A real refused connection, not a made-up one."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with Client(url, token=None, timeout=5, connections=1) as client:
            assert failure(client, url).message == f"{url[7:]} refuses the connection"


def test_real_tls_failure() -> None:
    """A server that does not speak TLS at all."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            for _ in range(4):
                peer, _address = server.accept()
                peer.recv(100)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                peer.close()

        threading.Thread(target=answer, daemon=True).start()
        url = f"https://127.0.0.1:{server.getsockname()[1]}"
        with Client(url, token=None, timeout=5, connections=1) as client:
            assert failure(client, url).message == f"no secure connection to {url[8:]}"


def test_proxy_from_the_environment(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP_PROXY is used, as `hf` does; here the Hub itself stands in for a proxy."""
    monkeypatch.setenv("http_proxy", hub.endpoint)
    monkeypatch.setenv("no_proxy", "")
    with Client("http://hub.test", token=None, timeout=5, connections=1) as client:
        assert client.fetch("http://hub.test/x").status == 404
    assert hub.seen[0].path == "http://hub.test/x"


def test_proxy_that_leads_nowhere(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that does not understand CONNECT: the Hub, which is none."""
    monkeypatch.setenv("HTTPS_PROXY", hub.endpoint)
    with Client("https://hub.test", token=None, timeout=5, connections=1) as client:
        error = failure(client, "https://hub.test/x")
    assert error.message == "the proxy does not lead to hub.test"
    assert error.hint == "check HTTPS_PROXY and NO_PROXY"


@pytest.mark.parametrize("name", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"])
def test_folder_of_certificates(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates may come from a folder as well; this one has none that helps."""
    monkeypatch.setenv(name, str(tmp_path))
    with responses.RequestsMock() as mock:
        mock.get("https://hub.test/a", body=b"x")
        with Client("https://hub.test", token=None, timeout=5, connections=1) as client:
            assert client.fetch("https://hub.test/a").body == b"x"


def test_certificates_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CA bundle that is not there is the user's to mend."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere/ca.pem")
    with (
        Client("https://hub.test", token=None, timeout=5, connections=1) as client,
        pytest.raises(UsageError) as caught,
    ):
        client.fetch("https://hub.test/a")
    assert caught.value.message == "the certificates in /nowhere/ca.pem cannot be read"


def test_one_tls_context_for_all_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CA file is loaded once, not for every connection."""
    made: list[str | None] = []
    create = ssl.create_default_context

    def counted(*, cafile: str | None = None) -> ssl.SSLContext:
        made.append(cafile)
        return create(cafile=cafile)

    monkeypatch.setattr(ssl, "create_default_context", counted)
    with responses.RequestsMock() as mock:
        mock.get("https://hub.test/a", body=b"x")
        with Client("https://hub.test", token=None, timeout=5, connections=4) as client:
            answers = [client.fetch("https://hub.test/a") for _ in range(3)]
    assert [answer.body for answer in answers] == [b"x"] * 3
    assert len(made) == 1


def test_answer_is_plain_data() -> None:
    """An answer can be made without a server, as a caller's own fetch would."""
    answer = Answer(status=200, body=b"x", url="https://h.co/a")
    assert (answer.commit, answer.total, answer.headers) == (None, None, {})


def test_sparse_files_are_what_they_say() -> None:
    """The test server's own huge files have the length they claim."""
    sparse = Sparse(b"abc", 10)
    assert sparse.part(0, 5) == b"abc\0\0"
    assert sparse.part(8, 99) == b"\0\0"
