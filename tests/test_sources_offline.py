"""Token, endpoint, offline mode and cache: where `hf` looks, hfkv looks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hub_server import VALID, HubServer
from safetensors.numpy import save

from hfkv.core.files import Target
from hfkv.errors import UnreadableError, UsageError
from hfkv.sources import load
from hfkv.sources.environment import Token, cache_folder, endpoint, find_token, is_offline

CONFIG = {"model_type": "llama"}
SHA = "c" * 40


def cached(hf_home: Path, repo: str = "org/name", revision: str = "main") -> Path:
    """Lay out a repository as huggingface_hub caches it: links into blobs."""
    root = hf_home / "hub" / f"models--{repo.replace('/', '--')}"
    snapshot = root / "snapshots" / SHA
    for folder in (snapshot, root / "blobs", (root / "refs" / revision).parent):
        folder.mkdir(parents=True, exist_ok=True)
    (root / "refs" / revision).write_text(SHA)
    weights = save({"model.layers.0.w": np.zeros((2, 2), np.float32)})
    for name, data in {
        "config.json": b'{"model_type": "llama"}',
        "model.safetensors": weights,
    }.items():
        (root / "blobs" / name[:3]).write_bytes(data)
        (snapshot / name).symlink_to(Path("../../blobs") / name[:3])
    return snapshot


@pytest.fixture
def hf_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty HF_HOME."""
    home = tmp_path / "home"
    monkeypatch.setenv("HF_HOME", str(home))
    return home


# --- offline ----------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [None, "main", SHA])
def test_downloaded_model(hf_home: Path, hub_server: HubServer, revision: str | None) -> None:
    """Offline, a downloaded model is read from the cache without a request."""
    cached(hf_home)
    files = load("org/name", revision=revision, offline=True)
    assert files.target == Target(kind="hub", id="org/name", revision=revision or "main", sha=SHA)
    assert files.config == CONFIG
    assert files.tensors[0].nbytes == 16
    assert files.problems == ()
    assert hub_server.seen == []


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
@pytest.mark.parametrize("value", ["1", "true", "YES", "on"])
def test_offline_by_environment(
    hf_home: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """Both variables and all their spellings of yes."""
    cached(hf_home)
    monkeypatch.setenv(name, value)
    assert load("org/name").target.sha == SHA


def test_pull_request_in_the_cache(hf_home: Path) -> None:
    """References may have slashes."""
    cached(hf_home, revision="refs/pr/1")
    assert load("org/name@refs/pr/1", offline=True).target.sha == SHA


def test_cache_as_huggingface_hub_names_it(
    hf_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HF_HUB_CACHE moves the cache itself."""
    cached(hf_home)
    (hf_home / "hub").rename(tmp_path / "elsewhere")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "elsewhere"))
    assert load("org/name", offline=True).target.sha == SHA


@pytest.mark.parametrize("target", ["org/other", "org/name@v2", "org/name:x.safetensors"])
def test_not_in_the_cache(hf_home: Path, target: str) -> None:
    """What is not there is named, with the place that was looked at."""
    cached(hf_home)
    with pytest.raises(UnreadableError) as caught:
        load(target, offline=True)
    name = target.partition("@")[0]
    assert caught.value.message == f"offline, and {name} is not in the cache at {hf_home}/hub"
    repo = name.partition(":")[0]
    assert caught.value.hint == (
        "inspecting it once online is enough to keep what is needed; "
        f"`hf download {repo}` fetches all of it"
    )


def test_one_file_from_the_cache(hf_home: Path) -> None:
    """`org/name:FILE` works offline as well."""
    cached(hf_home)
    files = load("org/name:model.safetensors", offline=True)
    assert files.target.id == "org/name:model.safetensors"
    assert files.target.sha == SHA
    assert files.config == CONFIG


def test_only_the_config_was_downloaded(hf_home: Path) -> None:
    """A part of a model is read as far as it goes, and it is said why there is no more."""
    (cached(hf_home) / "model.safetensors").unlink()
    files = load("org/name", offline=True)
    assert files.config == CONFIG
    assert [problem.code for problem in files.problems] == ["no-weights", "offline-partial"]
    assert files.problems[1].message == (
        f"offline: only what is in the cache at {hf_home}/hub was read"
    )


def test_reference_that_is_a_pipe(hf_home: Path) -> None:
    """It is not waited for: a reference that cannot be read is none."""
    reference = cached(hf_home).parent.parent / "refs" / "main"
    reference.unlink()
    os.mkfifo(reference)
    with pytest.raises(UnreadableError, match=r"^offline, and org/name is not in the cache"):
        load("org/name", offline=True)


def test_reference_that_is_a_path(hf_home: Path) -> None:
    """A reference that leads out of the cache leads nowhere."""
    snapshot = cached(hf_home)
    (snapshot.parent.parent / "refs" / "main").write_text("../../..")
    with pytest.raises(UnreadableError, match=r"^offline, and org/name is not in the cache"):
        load("org/name", offline=True)


# --- environment ------------------------------------------------------------------------------


def test_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """The official Hub, or HF_ENDPOINT without its last slash."""
    monkeypatch.delenv("HF_ENDPOINT")
    assert endpoint() == "https://huggingface.co"
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.test/path/")
    assert endpoint() == "https://hub.test/path"


@pytest.mark.parametrize(
    "value",
    [
        "hub.test",
        "ftp://hub.test",
        "https://",
        "https://me:secret@hub.test",
        "https://h:x",
        "https://a host",
        "https://a..b",
        "https://\x01.test",
        f"https://{'a' * 64}.test",
        "http://[x",
    ],
)
def test_bad_endpoint(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """What is no http(s) address is refused without being repeated: it may hold a password."""
    monkeypatch.setenv("HF_ENDPOINT", value)
    with pytest.raises(UsageError) as caught:
        endpoint()
    assert caught.value.message == "HF_ENDPOINT is not the address of a Hub"


@pytest.mark.parametrize(("value", "expected"), [("0", False), ("", False), ("off", False)])
def test_not_offline(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    """Other values leave the network on."""
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    assert is_offline() is expected


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, home: in this order."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HF_HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache/huggingface/hub"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg/huggingface/hub"
    monkeypatch.setenv("HF_HOME", "~/hf")
    assert cache_folder() == tmp_path / "hf/hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "c"))
    assert cache_folder() == tmp_path / "c"


def test_token_order(hf_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given, then HF_TOKEN, then the older variable, then the stored login."""
    assert find_token() is None
    hf_home.mkdir()
    (hf_home / "token").write_text("hf_stored\n")
    monkeypatch.setenv("HF_TOKEN_PATH", str(hf_home / "token"))
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "hf_stored")
    assert find_token() == Token("hf_stored", str(hf_home / "token"))
    monkeypatch.setenv("HUGGING_FACE_HUB_TOKEN", "hf_older")
    assert find_token() == Token("hf_older", "HUGGING_FACE_HUB_TOKEN")
    monkeypatch.setenv("HF_TOKEN", " hf_env\n")
    assert find_token() == Token("hf_env", "HF_TOKEN")
    assert find_token("hf_given") == Token("hf_given", "--token")
    assert find_token("") is None
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
    assert find_token() is None
    assert find_token("hf_given") == Token("hf_given", "--token")


def test_stored_login_as_huggingface_hub_reads_it(hf_home: Path) -> None:
    """The file that `hf auth login` writes gives the token that huggingface_hub gives."""
    hf_home.mkdir()
    (hf_home / "token").write_text("hf_stored_login\n")
    code = (
        "import huggingface_hub; from hfkv.sources.environment import find_token;"
        "assert find_token().value == huggingface_hub.get_token() == 'hf_stored_login'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_stored_login_is_used(
    hf_home: Path, hub_server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stored login is sent to the Hub."""
    hf_home.mkdir()
    (hf_home / "token").write_text(VALID)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: VALID)
    hub_server.add("org/name", {"config.json": CONFIG, "model.safetensors": save({})})
    load("org/name")
    assert hub_server.seen[0].token == f"Bearer {VALID}"


@pytest.mark.parametrize("value", ["hf_a b", "hf_ä", "hf_\x00", "hf_a\nhf_b"])
def test_token_that_cannot_be_sent(value: str) -> None:
    """A token with odd characters is refused, and not repeated."""
    with pytest.raises(UsageError) as caught:
        find_token(value)
    assert caught.value.message == "the token from --token has characters that no token has"
    assert value not in str(caught.value.hint)


def test_no_token_means_no_huggingface_hub() -> None:
    """Its import costs 240 ms, so it happens only for a stored login."""
    code = (
        "import sys; from hfkv.sources.environment import find_token; find_token();"
        "import hfkv.sources.hub; print('huggingface_hub' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
