"""Who may read a repository on the Hub, and what is said to who may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hub_models import (
    CONFIG,
    GATED,
    ONE,
    codes,
)
from hub_server import FINE_GRAINED, GRANTED, VALID, HubServer

from hfkv.errors import (
    HfkvError,
    UnreadableError,
)
from hfkv.sources import load

PUBLIC = {"safetensors": {"parameters": {"BF16": 64}, "total": 64}, "config": {"model_type": "x"}}


def test_token_goes_to_the_hub_alone(
    hub_server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a granted token a gated repository is read; the CDN never sees the token."""
    monkeypatch.setenv("HF_TOKEN", GRANTED)
    hub_server.add("org/gated", GATED, gated="manual")
    assert load("org/gated").config == CONFIG
    tokens = {(seen.side, seen.token) for seen in hub_server.seen}
    assert tokens == {("hub", f"Bearer {GRANTED}"), ("cdn", None)}


HINT = "accept its license at {0}/org/gated, then run `hf auth login` or set HF_TOKEN"


WAYS_IN: dict[str | None, tuple[str, str]] = {
    None: (
        "org/gated is gated",
        HINT + "; or give its config.json with --config FILE",
    ),
    VALID: (
        "org/gated is gated, and the account of the token has no access to it",
        "ask for it at {0}/org/gated; or give its config.json with --config FILE",
    ),
    FINE_GRAINED: (
        "the token from --token is fine-grained and excludes gated repositories",
        "allow them at https://huggingface.co/settings/tokens",
    ),
}


@pytest.mark.parametrize("token", WAYS_IN)
def test_gated_without_access(hub_server: HubServer, token: str | None) -> None:
    """The public metadata is kept for the weights, and the hint says how to get in."""
    hub_server.add("org/gated", GATED, gated="auto", info=PUBLIC)
    files = load("org/gated", token=token)
    message, hint = WAYS_IN[token]
    assert files.hub == {"gated": "auto", **PUBLIC}
    assert files.config is None
    assert files.weight_files == ("model.safetensors",)
    assert files.files[1].size == len(ONE)
    assert files.tensors == ()
    assert [(p.code, p.message, p.hint) for p in files.problems] == [
        ("gated", message, hint.format(hub_server.endpoint))
    ]


def test_gated_and_the_token_is_not_known(hub_server: HubServer) -> None:
    """The Hub answers 401 for a token it does not know, and 403 for one without access."""
    hub_server.add("org/gated", GATED, gated="auto")
    headers = {"X-Error-Code": "GatedRepo"}
    hub_server.fault("/resolve/", "status", status=401, headers=headers)
    assert [(p.message, p.hint) for p in load("org/gated", token=VALID).problems] == [
        (
            "org/gated is gated, and the token from --token was not accepted",
            "it may have expired or been revoked: run `hf auth login`",
        )
    ]


def test_gated_with_a_config_from_elsewhere(hub_server: HubServer, tmp_path: Path) -> None:
    """`--config FILE` gives a gated model a cache size, its weights from the metadata."""
    hub_server.add("org/gated", GATED, gated="auto", info=PUBLIC)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    files = load("org/gated", config_path=str(path))
    assert files.config == CONFIG
    assert files.hub["safetensors"] == PUBLIC["safetensors"]
    assert codes(files) == ["gated"]


def test_rejected_token_on_a_public_repository(hub_server: HubServer) -> None:
    """The Hub refuses a bad token even for what is public; it is then read without one."""
    hub_server.add("org/one", GATED)
    files = load("org/one", token="hf_revoked")
    assert files.config == CONFIG
    assert [(p.code, p.message, p.hint) for p in files.problems] == [
        (
            "token-rejected",
            "the Hub rejects the token from --token",
            "it may have expired or been revoked: unset it, or run `hf auth login`",
        )
    ]


REFUSALS: dict[str, tuple[dict[str, Any], str, type[HfkvError], str]] = {
    "nobody, missing or private": (
        {},
        "org/none is not on {host}, or it is private",
        UnreadableError,
        "not-found",
    ),
    "known, missing or private": (
        {"token": VALID},
        "org/none is not on {host}, or the token has no access to it",
        UnreadableError,
        "not-found",
    ),
    "bad token, missing or private": (
        {"token": "hf_revoked"},
        "the Hub rejects the token from --token",
        UnreadableError,
        "token-rejected",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refused_repository(hub_server: HubServer, case: str) -> None:
    """Missing and private look alike from outside; what to do depends on the token."""
    given, message, kind, code = REFUSALS[case]
    host = hub_server.endpoint.removeprefix("http://")
    with pytest.raises(kind) as caught:
        load("org/none", **given)
    assert caught.value.message == message.format(host=host)
    assert caught.value.code == code
    hub_server.add("org/none", GATED, private=True)
    with pytest.raises(kind) as caught:
        load("org/none", **given)
    assert caught.value.message == message.format(host=host)


def test_private_repository_with_its_token(hub_server: HubServer) -> None:
    """A private repository is read like any other by who may."""
    hub_server.add("org/own", GATED, private=True)
    assert load("org/own", token=GRANTED).config == CONFIG


def test_unknown_revision(hub_server: HubServer) -> None:
    """The sentence names the revision and where the existing ones are listed."""
    hub_server.add("org/one", GATED)
    with pytest.raises(UnreadableError) as caught:
        load("org/one@v9")
    assert caught.value.message == "org/one has no revision 'v9'"
    assert caught.value.hint == (
        f"its branches and tags are listed at {hub_server.endpoint}/org/one/tree/main"
    )


def test_unknown_file(hub_server: HubServer) -> None:
    """A file that was named and is not there."""
    hub_server.add("org/one", GATED)
    with pytest.raises(UnreadableError) as caught:
        load("org/one:other.safetensors")
    assert caught.value.message == "org/one has no file other.safetensors at revision main"


def test_disabled_repository(hub_server: HubServer) -> None:
    """A repository that was taken down."""
    hub_server.add("org/one", GATED, disabled=True)
    with pytest.raises(UnreadableError) as caught:
        load("org/one")
    assert caught.value.message == "org/one was disabled by the Hub or its owner"
