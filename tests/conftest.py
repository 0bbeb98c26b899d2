"""What every test runs with: no token, no cache and no Hub of the person who runs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_client import DATA, TOKEN
from hub_server import HubServer

from hfkv.sources.http import Client


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "HF_TOKEN_PATH",
        "HF_OIDC_RESOURCE",
        "HF_HUB_DISABLE_PROGRESS_BARS",
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
        "HF_HUB_DISABLE_IMPLICIT_TOKEN",
        "HFKV_ONE_REQUEST",
        "HF_HUB_CACHE",
        "HUGGINGFACE_HUB_CACHE",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))
    monkeypatch.setenv("HFKV_CACHE", str(tmp_path / "hfkv-cache"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens there


@pytest.fixture
def hub_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """Return an empty Hub on this machine that HF_ENDPOINT points to.

    Each test has its own, for a late request of another test must not be counted here; and a
    busy machine must not change what is asked, so the endpoint for all headers has its time.
    """
    server = HubServer()
    monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
    monkeypatch.setattr("hfkv.sources.shards._HEAD_START", 2.0)
    yield server
    server.close()


@pytest.fixture
def hub(hub_server: HubServer, monkeypatch: pytest.MonkeyPatch) -> HubServer:
    """Serve one small and one large file; waits between tries are cut short."""
    hub_server.add("o/n", {"a.json": b'{"a": 1}', "w.safetensors": DATA})
    monkeypatch.setattr("hfkv.sources.http.random.uniform", lambda *_: 0.01)
    return hub_server


@pytest.fixture
def client(hub: HubServer) -> Iterator[Client]:
    """Return a client of that Hub with a token and ten seconds."""
    with Client(hub.endpoint, token=TOKEN, timeout=10, connections=4) as made:
        yield made
