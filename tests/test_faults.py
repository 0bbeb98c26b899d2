"""docs/faults.md is true, row by row: what happened, what is said, and the exit code."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_cases import CASES, Case, set_up
from hub_server import HubServer
from requests.adapters import HTTPAdapter

from hfkv.cli import main
from hfkv.sources.cache import cache_root

TABLE = Path(__file__).parent.parent / "docs" / "faults.md"
ROWS = {
    case: (what.strip(), int(code))
    for case, what, code in re.findall(
        r"^\| ([a-z0-9-]+) \| [^|]+ \|([^|]*)\| (\d) \|$", TABLE.read_text("utf-8"), re.MULTILINE
    )
}


def test_every_row_is_tested() -> None:
    """The document and the cases are the same list, in the same order."""
    assert list(ROWS) == list(CASES)
    assert len(ROWS) > 60


@pytest.fixture
def ipv6(hub_server: HubServer) -> Iterator[str]:
    """Return the address of the same Hub on the IPv6 loopback alone."""
    try:
        server = hub_server.listen_on_ipv6()
    except OSError:
        pytest.skip("no IPv6 here")
    yield f"http://[::1]:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("row", ROWS)
def test_row(
    row: str,
    hub_server: HubServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    """What the row says is what the command says, in one line, and nothing when it recovers."""
    case, (said, code) = CASES[row], ROWS[row]
    monkeypatch.setattr("hfkv.sources.http.random.uniform", lambda *_: 0.002)
    look(hub_server, monkeypatch, case.before)
    capsys.readouterr()
    set_up(case, hub_server)
    monkeypatch.setenv("HF_ENDPOINT", hub_server.endpoint)
    for name, value in case.environment.items():
        monkeypatch.setenv(name, request.getfixturevalue("ipv6") if value == "IPV6" else value)
    if case.cause is not None:
        fail_with(case.cause, monkeypatch)
    assert main(["inspect", *case.argv, "--json"]) == code
    err = capsys.readouterr().err
    hosts = {"HUB": "hub.test" if "hub.test" in err else hub_server.base("hub")[7:]}
    hosts["HUB"] = "127.0.0.1:9" if row == "refused" else hosts["HUB"]
    hosts |= {"CDN": hub_server.base("cdn")[7:], "CACHE": str(cache_root().parent / "hf-home/hub")}
    for name, value in hosts.items():
        said = re.sub(rf"\b{name}\b", value, said)
    assert err.splitlines()[:1] == ([f"hfkv: error: {said}"] if said else [])
    assert "Traceback" not in err


def look(hub: HubServer, monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    """Look at the model without any fault, and damage what was kept if that is the case."""
    if not before:
        return
    set_up(Case(), hub)
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    assert main(["inspect", "org/one", "--json"]) == 0
    if before == "damage":
        for path in cache_root().rglob("*"):
            if path.is_file():
                path.write_bytes(path.read_bytes()[:-9])


def fail_with(cause: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every request fail before it is sent."""

    def send(*_: object, **__: object) -> None:
        raise cause

    monkeypatch.setattr(HTTPAdapter, "send", send)
    monkeypatch.setattr(socket, "create_connection", send)
