"""Each way not to reach a server has its own sentence."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest
import requests
import responses
import urllib3.exceptions
from hub_client import failure
from hub_server import HubServer, Sparse

from hfkv.errors import UsageError
from hfkv.sources.http import Answer, Client


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hfkv.sources.http.random.uniform", lambda *_: 0.01)


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


WRITTEN = "HTTP_PROXY (or ALL_PROXY) is not the address of a proxy"
BAD_PROXIES = {
    "http://": WRITTEN,
    "not an address": WRITTEN,
    "::::": WRITTEN,
    "http://me:SECRET@[::1": WRITTEN,
    "http://me:SECRET@proxy:99999": WRITTEN,
    "ftp://me:SECRET@proxy": "HTTP_PROXY (or ALL_PROXY) names a ftp proxy, which cannot be used",
    "socks5://me:SECRET@x": "HTTP_PROXY (or ALL_PROXY) names a socks5 proxy, which cannot be used",
}


@pytest.mark.parametrize("proxy", BAD_PROXIES)
def test_proxy_that_cannot_be_one(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is written wrongly is named; its password is not shown."""
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setattr("hfkv.sources.transport.find_spec", lambda _name: None)
    with Client("http://hub.test", token=None, timeout=5, connections=1) as client:
        for ask in (client.fetch, lambda url: client.spares(url, 1)):
            with pytest.raises(UsageError) as caught:
                ask("http://hub.test/x")
            assert caught.value.message == BAD_PROXIES[proxy]
            assert "SECRET" not in str(caught.value.hint)


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
