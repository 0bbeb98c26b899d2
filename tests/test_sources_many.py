"""Many models at once: shared connections and limits, no failure that takes others with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from hub_client import TOKEN
from hub_models import CONFIG, GATED, ONE, SHARDED
from hub_server import GRANTED, HubServer

from hfkv.core.files import ModelFiles
from hfkv.errors import HfkvError, UnreadableError
from hfkv.sources.catalog import list_models
from hfkv.sources.http import Client
from hfkv.sources.pace import Pace
from hfkv.sources.several import load_many, side_by_side
from hfkv.sources.shared import Shared


def name_of(outcome: ModelFiles | HfkvError) -> str:
    """Return the id of a model, or the code of a failure."""
    return outcome.code if isinstance(outcome, HfkvError) else outcome.target.id


def test_each_target_has_its_outcome(hub_server: HubServer) -> None:
    """Failures stand where they belong; what can be read is read."""
    hub_server.add("org/one", GATED)
    hub_server.add("org/two", SHARDED)
    targets = ["org/one", "org/none", "org/two", "./nowhere"]
    found = {target: name_of(outcome) for target, outcome in load_many(targets)}
    assert found == {
        "org/one": "org/one",
        "org/none": "not-found",
        "org/two": "org/two",
        "./nowhere": "not-found",
    }


def test_nothing_is_asked_in_vain(hub_server: HubServer) -> None:
    """Of many models each costs what it must: listing, config, header, and their redirects."""
    for number in range(5):
        hub_server.add(f"org/m{number}", GATED)
    list(load_many(f"org/m{number}" for number in range(5)))
    assert len(hub_server.seen) == 5 * 5
    assert all(seen.status < 400 for seen in hub_server.seen)


def test_connections_are_shared(hub_server: HubServer) -> None:
    """Twenty models do not open sixty connections."""
    for number in range(20):
        hub_server.add(f"org/m{number}", GATED)
    list(load_many([f"org/m{number}" for number in range(20)], at_once=2))
    assert len(hub_server.seen) == 100
    assert hub_server.connections <= 12


def test_targets_are_taken_as_they_are_needed() -> None:
    """An endless list of targets is no obstacle."""

    def endless() -> Iterator[str]:
        number = 0
        while True:
            number += 1
            taken.append(number)
            yield str(number)

    taken: list[int] = []
    results = side_by_side(endless(), int, at_once=3)
    found = {next(results)[2] for _ in range(10)}
    results.close()  # type: ignore[attr-defined]
    assert len(found) == 10
    assert len(taken) <= 15


def test_limit_met_by_one_is_kept_by_all(hub_server: HubServer) -> None:
    """After `come back in a second` nobody asks before the second is over."""
    for number in range(6):
        hub_server.add(f"org/m{number}", GATED)
    limit = {"RateLimit": '"api";r=0;t=0'}  # the Hub's seconds are rounded down: one more
    hub_server.fault("/api/models/", "status", status=429, headers=limit, times=1)
    started = time.monotonic()
    outcomes = [outcome for _, outcome in load_many([f"org/m{n}" for n in range(6)], at_once=1)]
    assert all(isinstance(outcome, ModelFiles) for outcome in outcomes)
    assert time.monotonic() - started >= 1
    statuses = [seen.status for seen in hub_server.seen if "/revision/" in seen.path]
    assert statuses == [429] + [200] * 6


def test_a_third_of_all_requests_is_refused(
    hub_server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Hub that answers 429 to every third request only makes it slower."""
    monkeypatch.setattr("hfkv.sources.http.random.uniform", lambda *_: 0.002)
    for number in range(24):
        hub_server.add(f"org/m{number}", GATED)
    hub_server.fault("", "status", status=429, every=3)
    outcomes = list(load_many([f"org/m{n}" for n in range(24)], at_once=24))
    assert [target for target, outcome in outcomes if isinstance(outcome, HfkvError)] == []


def test_token_goes_to_the_hub_alone(
    hub_server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shared connections change nothing of that."""
    monkeypatch.setenv("HF_TOKEN", GRANTED)
    hub_server.add("org/gated", GATED, gated="manual")
    hub_server.add("org/one", GATED)
    list(load_many(["org/gated", "org/one"]))
    tokens = {(seen.side, seen.token) for seen in hub_server.seen}
    assert tokens == {("hub", f"Bearer {GRANTED}"), ("cdn", None)}


def test_nothing_is_opened_for_what_is_local() -> None:
    """Sharing nothing costs nothing, and can be ended at any time."""
    with Shared():
        pass


# --- patience ---------------------------------------------------------------------------------


@pytest.fixture
def limited_hub(hub: HubServer) -> HubServer:
    """Return a Hub that wants two seconds before the second request."""
    hub.fault("a.json", "status", status=429, headers={"Retry-After": "2"}, times=1)
    return hub


def test_patience_goes_beyond_the_deadline(limited_hub: HubServer) -> None:
    """A deadline is for servers that hang, not for those that say when to come back."""
    url = f"{limited_hub.endpoint}/o/n/resolve/main/a.json"
    client = Client(limited_hub.endpoint, token=TOKEN, timeout=1, connections=1, patient=True)
    with client:
        assert client.fetch(url).status == 200


def test_patience_is_not_for_faults(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds allow for one pause of 1.5 s between tries, and not for the next."""
    monkeypatch.setattr("hfkv.sources.http.random.uniform", lambda *_: 1.5)
    hub.fault("a.json", "status", status=503)
    with Client(hub.endpoint, token=None, timeout=2, connections=1, patient=True) as client:
        assert client.fetch(f"{hub.endpoint}/o/n/resolve/main/a.json").status == 503
    assert len(hub.seen) <= 2


def test_without_patience_the_answer_is_told(limited_hub: HubServer) -> None:
    """Someone who waits for one answer is told at once."""
    url = f"{limited_hub.endpoint}/o/n/resolve/main/a.json"
    with Client(limited_hub.endpoint, token=TOKEN, timeout=1, connections=1) as client:
        assert client.fetch(url).status == 429


def test_patience_has_an_end(hub: HubServer) -> None:
    """A server that wants an hour is not waited for."""
    hub.fault("a.json", "status", status=429, headers={"Retry-After": "3600"})
    with Client(hub.endpoint, token=None, timeout=1, connections=1, patient=True) as client:
        assert client.fetch(f"{hub.endpoint}/o/n/resolve/main/a.json").status == 429


def test_last_request_before_the_limit(hub: HubServer) -> None:
    """`r=0` on a good answer already says that the next one has to wait."""
    limit = {"RateLimit": '"resolvers";r=0;t=0'}
    hub.fault("first", "status", status=200, body=b"x", headers=limit)
    hub.fault("second", "status", status=200, body=b"x")
    with Client(hub.endpoint, token=None, timeout=9, connections=1) as client:
        started = time.monotonic()
        client.fetch(f"{hub.endpoint}/first")
        client.fetch(f"{hub.endpoint}/api/second")  # counted apart
        assert time.monotonic() - started < 0.9
        client.fetch(f"{hub.endpoint}/second")
        assert time.monotonic() - started >= 1


def test_pace() -> None:
    """The longest wish counts, for what it was said of."""
    pace = Pace()
    assert pace.left("api") == 0
    pace.pause("api", 50)
    pace.pause("api", 5)
    assert 49 < pace.left("api") <= 50
    assert pace.left("files") == 0


def test_waiting_ends_when_the_client_is_closed(hub: HubServer) -> None:
    """Ctrl-C does not wait for a rate limit."""
    hub.fault("a.json", "status", status=429, headers={"Retry-After": "20"})
    client = Client(hub.endpoint, token=None, timeout=60, connections=1)
    threading.Timer(0.2, client.close).start()
    started = time.monotonic()
    assert client.fetch(f"{hub.endpoint}/o/n/resolve/main/a.json").status == 429
    assert time.monotonic() - started < 5


# --- the list of models -----------------------------------------------------------------------


def test_list_goes_on_over_its_pages(hub_server: HubServer) -> None:
    """Each page names the next; the query says whose models and which."""
    for number in range(5):
        hub_server.add(f"org/m{number}", {"config.json": CONFIG, "model.safetensors": ONE})
    hub_server.add("other/x", GATED)
    hub_server.page = 2
    found = list(list_models(author="org", filters=["awq", "text-generation"]))
    assert found == [f"org/m{number}" for number in range(5)]
    query = hub_server.seen[0].path.partition("?")[2]
    assert query == (
        "sort=downloads&direction=-1&limit=100&author=org&filter=awq&filter=text-generation"
    )
    assert len(hub_server.seen) == 3


def test_next_page_of_another_host_is_not_asked(hub_server: HubServer) -> None:
    """A list cannot send the token elsewhere."""
    link = {"Link": f'<{hub_server.base("cdn")}/api/models>; rel="next"'}
    hub_server.fault("/api/models", "status", status=200, body=b'[{"id": "a/b"}]', headers=link)
    assert list(list_models(author="a", token=GRANTED)) == ["a/b"]
    assert {seen.side for seen in hub_server.seen} == {"hub"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{}", "model list: expected a list"),
        (b"[1]", "model list[0].id: expected a string, got None"),
        (b'[{"id": 5}]', "model list[0].id: expected a string, got 5"),
        (b'[{"id": "/etc"}]', "model list[0].id: not the name of a repository"),
        (b'[{"id": "../x"}]', "model list[0].id: not the name of a repository"),
        (b"<", "{host} did not answer like a Hub"),
    ],
)
def test_list_that_is_none(hub_server: HubServer, body: bytes, message: str) -> None:
    """Wrong types are told with their place."""
    hub_server.fault("/api/models", "status", status=200, body=body)
    with pytest.raises(HfkvError) as caught:
        list(list_models(author="a"))
    host = hub_server.endpoint.removeprefix("http://")
    assert caught.value.message == message.format(host=host)


def test_list_whose_head_never_ends(hub_server: HubServer) -> None:
    """The deadline holds, though every letter is in time."""
    hub_server.fault("/api/models", "drip-head")
    with pytest.raises(UnreadableError) as caught:
        list(list_models(author="a", timeout=0.6))
    assert caught.value.message == f"no complete answer from {hub_server.endpoint} within 0.6 s"


def test_pages_in_a_circle_have_an_end(hub_server: HubServer) -> None:
    """Page one names page two as the next, and page two page one."""
    first = "/api/models?sort=downloads&direction=-1&limit=100&author=a"
    there, back = ({"Link": f'<{to}>; rel="next"'} for to in (f"{first}&cursor=2", first))
    for match, body, link in (
        ("cursor=2", b'[{"id": "a/c"}]', back),
        ("", b'[{"id": "a/b"}]', there),
    ):
        hub_server.fault(match, "status", status=200, body=body, headers=link)
    assert list(list_models(author="a")) == ["a/b", "a/c"]
    assert len(hub_server.seen) == 2


def test_list_that_is_refused(hub_server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Hub that fails is named."""
    monkeypatch.setattr("hfkv.sources.http.random.uniform", lambda *_: 0.001)
    hub_server.fault("/api/models", "status", status=503)
    with pytest.raises(UnreadableError) as caught:
        list(list_models(author="a"))
    host = hub_server.endpoint.removeprefix("http://")
    assert caught.value.message == f"{host} answers 503, and trying again did not help"
