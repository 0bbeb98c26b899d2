"""What the Hub can answer instead of what was asked for."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from hub_models import (
    GATED,
    SHARDED,
    sized_header,
)
from hub_server import HubServer

from hfkv.errors import (
    HfkvError,
    MalformedError,
    UnreadableError,
    UsageError,
)
from hfkv.sources import load
from hfkv.sources.http import Client

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


@pytest.mark.parametrize("match", ["/revision/", "config.json", "index.json"])
def test_answer_whose_head_never_ends(hub_server: HubServer, match: str) -> None:
    """Wherever it is, the deadline holds."""
    hub_server.add("org/two", SHARDED)
    hub_server.fault(match, "drip-head")
    with pytest.raises(UnreadableError) as caught:
        load("org/two", deep=True, timeout=0.6)
    assert caught.value.message == f"no complete answer from {hub_server.endpoint} within 0.6 s"


LISTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "no commit": ({"sha": None}, "model info: sha: expected a string, got None"),
    "odd commit": ({"sha": "../x"}, "model info: sha: not a commit: '../x'"),
    "odd name": ({"id": "a/x y"}, "model info: id: not the name of a repository"),
    "path as a name": ({"id": "../x"}, "model info: id: not the name of a repository"),
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
    "a list": (b"[]", "config.json: expected a JSON object at the top, got a list"),
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
