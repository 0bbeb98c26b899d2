"""What is quantized from a model, as the Hub's model tree lists it; several models at once."""

from __future__ import annotations

import json
import threading
from urllib.parse import parse_qs, urlsplit

import pytest
import responses

from hfkv.core.files import ModelFiles, Target
from hfkv.errors import HfkvError, MalformedError, UnreadableError, UsageError
from hfkv.sources.several import load_several
from hfkv.sources.variants import variants

HUB = "http://hub.test"
LIST = f"{HUB}/api/models"


@pytest.fixture(autouse=True)
def _hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", HUB)


def hub_says(mock: responses.RequestsMock, body: object, status: int = 200) -> None:
    """Answer the next request for the list."""
    text = body if isinstance(body, str) else json.dumps(body)
    mock.add(responses.GET, LIST, body=text, status=status)


def test_the_hub_is_asked_for_quantized_models_by_downloads() -> None:
    """One request, with the filter that the model tree of the page uses."""
    with responses.RequestsMock() as mock:
        hub_says(mock, [{"id": "a/one-GGUF"}, {"id": "b/one-AWQ", "downloads": 3}, {"id": "c/x"}])
        assert variants("org/one", limit=2) == ["a/one-GGUF", "b/one-AWQ"]
        (call,) = mock.calls
    assert parse_qs(urlsplit(str(call.request.url)).query) == {
        "filter": ["base_model:quantized:org/one"],
        "sort": ["downloads"],
        "direction": ["-1"],
        "limit": ["2"],
    }
    assert "Authorization" not in call.request.headers


def test_the_token_and_a_pasted_address_are_understood() -> None:
    """The repository may be written as for inspect."""
    with responses.RequestsMock() as mock:
        hub_says(mock, [{"id": "a/b"}])
        assert variants(f"{HUB}/org/one/tree/main", token="hf_t") == ["a/b"]
        assert mock.calls[0].request.headers["Authorization"] == "Bearer hf_t"


def test_nothing_quantized_is_said_in_a_sentence() -> None:
    """The Hub lists nothing for a name it does not know either."""
    with responses.RequestsMock() as mock:
        hub_says(mock, [])
        with pytest.raises(UnreadableError) as caught:
            variants("org/one")
    assert caught.value.message == "hub.test lists nothing that is quantized from org/one"
    assert caught.value.code == "no-variants"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"id": "a/b"}, "model list: expected a list"),
        ([{"id": 3}], "model list[0].id: expected a string, got 3"),
        (["a/b"], "model list[0].id: expected a string, got None"),
        ([{"id": "/etc"}], "model list[0].id: not the name of a repository"),
    ],
)
def test_a_list_that_is_none_is_malformed(body: object, sentence: str) -> None:
    """The dotted path says where."""
    with responses.RequestsMock() as mock:
        hub_says(mock, body)
        with pytest.raises(MalformedError) as caught:
            variants("org/one")
    assert caught.value.message == sentence


def test_a_page_in_the_place_of_a_list() -> None:
    """A login of the network in between is no Hub."""
    with responses.RequestsMock() as mock:
        hub_says(mock, "<html>")
        with pytest.raises(UnreadableError) as caught:
            variants("org/one")
    assert caught.value.message == "hub.test did not answer like a Hub"


def test_a_refusal_of_the_hub_is_told_as_anywhere() -> None:
    """403 with its own words."""
    with responses.RequestsMock() as mock:
        hub_says(mock, {"error": "not today"}, status=403)
        with pytest.raises(UnreadableError) as caught:
            variants("org/one")
    assert caught.value.message == "org/one: the Hub forbids it: not today"


def test_without_a_network_there_is_no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither --offline nor HF_HUB_OFFLINE asks anybody."""
    sentence = "offline: only the Hub knows what is quantized from a model"
    with pytest.raises(UnreadableError) as caught:
        variants("org/one", offline=True)
    assert caught.value.message == sentence
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UnreadableError) as caught:
        variants("org/one")
    assert caught.value.message == sentence


@pytest.mark.parametrize("written", [".", "org/one:model.safetensors"])
def test_only_a_repository_has_variants(written: str) -> None:
    """A folder and a single file have none."""
    with pytest.raises(UsageError) as caught:
        variants(written)
    assert caught.value.message == f"{written} is not a repository on the Hub"


def test_several_are_read_side_by_side_and_keep_their_order() -> None:
    """Three that wait for each other all arrive; the one that fails is a failure in its place."""
    meeting = threading.Barrier(3, timeout=10)
    told: list[tuple[int, int, str]] = []

    def load(target: str) -> ModelFiles:
        meeting.wait()
        if target == "bad":
            raise UnreadableError("it is gone")
        return ModelFiles(target=Target(kind="hub", id=target))

    found = load_several(
        ["a", "bad", "c"], load, progress=lambda done, total, what: told.append((done, total, what))
    )
    assert [one.message if isinstance(one, HfkvError) else one.target.id for one in found] == [
        "a",
        "it is gone",
        "c",
    ]
    assert told == [(1, 3, "models"), (2, 3, "models"), (3, 3, "models")]


def test_a_bug_while_reading_is_no_failure_of_a_row() -> None:
    """What nobody expected is not hidden in a table."""

    def load(target: str) -> ModelFiles:
        raise ZeroDivisionError(target)

    with pytest.raises(ZeroDivisionError):
        load_several(["a"], load)
