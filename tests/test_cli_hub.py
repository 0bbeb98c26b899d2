"""Checking and comparing against a real server that behaves like the Hub."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hub_models import CONFIG, ONE
from hub_server import HubServer

from hfkv.cli import main

CARD = {
    "cardData": {"license": "apache-2.0"},
    "config": {"tokenizer_config": {"chat_template": "{{ messages }}"}},
}
FILES = {"config.json": CONFIG, "model.safetensors": ONE, "tokenizer.json": {}}


def checks(capsys: pytest.CaptureFixture[str], *args: str, code: int) -> dict[str, Any]:
    """Return the checks of a repository by their ids."""
    assert main(["check", *args, "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    return {check["id"]: check for check in told["checks"]}


def test_a_public_repository_is_checked_without_its_weights(
    hub_server: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """License and chat template are the Hub's; the hint pins the commit; little is read."""
    repo = hub_server.add("org/one", FILES)
    repo.info = CARD
    found = checks(capsys, "org/one", "--allow-license", "apache-2.0", code=0)
    assert found["reachable"]["message"] == "read from the Hub at main"
    assert found["license"]["message"] == "apache-2.0 is allowed"
    assert found["tokenizer"]["message"] == "tokenizer.json, with a chat template"
    assert found["pinned"]["hint"] == f"pin it: --revision {repo.sha}"
    assert found["disk"]["bytes"]["to fetch"] == len(ONE) + len(json.dumps(CONFIG)) + 2


def test_a_pinned_repository_passes(
    hub_server: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commit that the hint named is a revision."""
    repo = hub_server.add("org/one", FILES)
    repo.info = CARD
    repo.revisions = ("main", repo.sha)
    found = checks(capsys, f"org/one@{repo.sha}", "--fail-on", "warn", code=0)
    assert found["pinned"]["message"] == f"pinned to commit {repo.sha}"


def test_a_gated_repository_is_a_failed_check(
    hub_server: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the Hub shows of it is told all the same."""
    hub_server.add("org/gated", FILES).gated = "auto"
    found = checks(capsys, "org/gated", code=1)
    assert found["reachable"]["status"] == "fail"
    assert found["reachable"]["message"] == "org/gated is gated"
    assert found["license"]["status"] == "warn"


def test_a_repository_that_is_not_there_is_a_failed_check(
    hub_server: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not found or private: nobody can tell, and the sentence says so."""
    host = hub_server.endpoint.removeprefix("http://")
    found = checks(capsys, "org/none", code=1)
    assert found["reachable"]["message"] == f"org/none is not on {host}, or it is private"


def test_models_of_one_hub_are_compared(
    hub_server: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two that are there and one that is not, in the order in which they were named."""
    hub_server.add("org/one", FILES)
    hub_server.add("org/two", FILES)
    assert main(["compare", "org/two", "org/none", "org/one", "--json"]) == 0
    models = json.loads(capsys.readouterr().out)["models"]
    assert [model.get("id") or model["target"]["id"] for model in models] == [
        "org/two",
        "org/none",
        "org/one",
    ]
    assert models[1]["error"]["code"] == "not-found"
