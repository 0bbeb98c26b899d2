"""The environment means to hfkv what it means to `hf`: huggingface_hub itself is the oracle."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from hfkv.cli.output import Chatter
from hfkv.errors import UnreadableError
from hfkv.sources.environment import Token, find_token

BOTH = """
import json
from huggingface_hub import constants, get_token
from hfkv.sources import environment as ours
token = ours.find_token()
print(json.dumps([
    [constants.HF_HUB_CACHE, str(ours.cache_folder())],
    [constants.HF_HUB_OFFLINE, ours.is_offline()],
    [constants.ENDPOINT, ours.endpoint()],
    [bool(constants.HF_HUB_DISABLE_PROGRESS_BARS), ours.progress_forbidden()],
    [get_token(), None if token is None else token.value],
]))
"""


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"HF_HOME": "~/elsewhere"},
        {"HF_HOME": "$SCRATCH/hf", "SCRATCH": "/scratch"},
        {"XDG_CACHE_HOME": "/caches"},
        {"HF_HUB_CACHE": "${SCRATCH}/hub", "SCRATCH": "/scratch", "HF_HOME": "/other"},
        {"HUGGINGFACE_HUB_CACHE": "~/older"},
        {"HF_HUB_OFFLINE": "1"},
        {"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "1"},
        {"TRANSFORMERS_OFFLINE": "yes"},
        {"HF_ENDPOINT": "https://mirror.example/hub/"},
        {"HF_HUB_DISABLE_PROGRESS_BARS": "on"},
        {"HF_HUB_DISABLE_PROGRESS_BARS": "0"},
        {"HF_TOKEN": " hf_of_environment\n"},
        {"HF_TOKEN_PATH": "$HOME/my-token"},
        {"HF_TOKEN": "hf_first", "HF_TOKEN_PATH": "~/my-token"},
    ],
    ids=lambda said: " ".join(f"{name}={value}" for name, value in said.items()) or "nothing",
)
def test_the_environment_means_the_same(said: dict[str, str], tmp_path: Path) -> None:
    """Cache, offline, endpoint, progress and token, each in a process of its own."""
    stored = tmp_path / ".cache" / "huggingface" / "token"
    stored.parent.mkdir(parents=True)
    stored.write_text("hf_stored\n")
    (tmp_path / "my-token").write_text("hf_of_path")
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", BOTH],
        env={**kept, "HOME": str(tmp_path), **said},
        capture_output=True,
        text=True,
        check=True,
    )
    for theirs, ours in json.loads(done.stdout):
        assert ours == theirs


def test_a_token_that_ci_has_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trusted publisher's token comes before HF_TOKEN; where none can be had, that is said."""
    monkeypatch.setenv("HF_OIDC_RESOURCE", "org/name")
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "hf_made")
    assert find_token() == Token("hf_made", "HF_OIDC_RESOURCE")
    assert find_token("hf_given") == Token("hf_given", "--token")

    def refuse() -> None:
        raise ValueError("no id token")

    monkeypatch.setattr("huggingface_hub.get_token", refuse)
    with pytest.raises(UnreadableError) as caught:
        find_token()
    assert caught.value.message == "no token can be had for HF_OIDC_RESOURCE: no id token"
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
    assert find_token() is None


def test_a_secret_of_colab(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook there the token may be a secret, which huggingface_hub knows to ask for."""
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "hf_secret")
    assert find_token() is None
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    found = find_token()
    assert found is not None
    assert found.value == "hf_secret"


class Terminal(io.StringIO):
    """A stderr that is a terminal."""

    def isatty(self) -> bool:
        """Say yes."""
        return True


def test_progress_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal there is progress, unless HF_HUB_DISABLE_PROGRESS_BARS says no."""
    monkeypatch.setattr("sys.stderr", Terminal())
    given = {"quiet": False, "no_progress": False, "verbose": False}
    assert Chatter.of(given).progress
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    assert not Chatter.of(given).progress
