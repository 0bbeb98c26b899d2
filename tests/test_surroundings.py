"""What is found out around a model: license, chat template, disk, cache."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hfkv.core.checks import Surroundings
from hfkv.core.files import ModelFiles, RepoFile, Target
from hfkv.sources.listing import parse_listing
from hfkv.sources.surroundings import look_around

SHA = "d04e592bb4f6aa9cfee91e2e20afa771667e1d4b"
BLOB = "a" * 64
HUB = ModelFiles(
    target=Target(kind="hub", id="org/name", revision="main", sha=SHA),
    files=(
        RepoFile(path="config.json", size=2),
        RepoFile(path="model.safetensors", size=5, sha256=BLOB),
        RepoFile(path="picture.png", size=9),
    ),
    weight_files=("model.safetensors",),
)


def folder(tmp_path: Path, **files: str) -> ModelFiles:
    """Write files into a folder and return it as it would be read."""
    for name, text in files.items():
        (tmp_path / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return ModelFiles(
        target=Target(kind="folder", id=str(tmp_path)),
        files=tuple(RepoFile(path=path.name) for path in tmp_path.iterdir()),
    )


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the repository in an empty cache."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub" / "models--org--name"


def put(path: Path, text: str) -> None:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_files_of_the_commit_and_blobs_count_as_cached(cache: Path) -> None:
    """config.json in the snapshot (2 bytes) and the weights as a blob (5); pictures never."""
    assert look_around(HUB).cached_bytes == 0
    put(cache / "snapshots" / SHA / "config.json", "{}")
    assert look_around(HUB).cached_bytes == 2
    put(cache / "blobs" / BLOB, "12345")
    put(cache / "snapshots" / SHA / "picture.png", "123456789")
    assert look_around(HUB).cached_bytes == 7


def test_half_a_file_is_not_cached(cache: Path) -> None:
    """An interrupted download has another size."""
    put(cache / "blobs" / BLOB, "123")
    put(cache / "blobs" / f"{BLOB}.incomplete", "12345")
    assert look_around(HUB).cached_bytes == 0


def test_the_disk_is_that_of_the_cache_before_it_is_made(cache: Path) -> None:
    """The free bytes of the first folder that exists above it."""
    found = look_around(HUB)
    assert found.cache_path == str(cache.parent)
    free = shutil.disk_usage(cache.parent.parent).free
    assert found.free_bytes is not None
    assert abs(found.free_bytes - free) < 2**30  # others write to it as well


@pytest.mark.parametrize(
    ("card", "license_"),
    [
        ("---\nlanguage: en\nlicense: apache-2.0\n---\n# Name\n", "apache-2.0"),
        ('---\nlicense: "llama3.1"\n---\n', "llama3.1"),
        ("---\nlanguage: en\n---\nlicense: mit\n", None),
        ("# Name\nlicense: mit\n", None),
        ("---\nlicense:\n- mit\n---\n", None),
        ("", None),
    ],
)
def test_a_folder_states_its_license_in_the_model_card(
    tmp_path: Path, card: str, license_: str | None
) -> None:
    """Only the front matter of README.md counts."""
    assert look_around(folder(tmp_path, README__md=card)).license == license_


def test_a_chat_template_is_a_file_or_a_key(tmp_path: Path) -> None:
    """chat_template.jinja, or a key of tokenizer_config.json; without either file, unknown."""
    assert look_around(folder(tmp_path)).chat_template is None
    some = folder(tmp_path, tokenizer_config__json='{"chat_template": "{{ x }}"}')
    assert look_around(some).chat_template is True
    none = folder(tmp_path, tokenizer_config__json="{}")
    assert look_around(none).chat_template is False
    broken = folder(tmp_path, tokenizer_config__json="[")
    assert look_around(broken).chat_template is None
    assert look_around(folder(tmp_path, chat_template__jinja="x")).chat_template is True


def test_nothing_is_known_of_a_hub_that_says_nothing() -> None:
    """No license, no template, and no request to find out."""
    found = look_around(HUB)
    assert (found.license, found.chat_template) == (None, None)
    told = replace(HUB, hub={"license": "mit", "chat_template": False})
    assert (look_around(told).license, look_around(told).chat_template) == ("mit", False)
    odd = replace(HUB, hub={"license": 3, "chat_template": "yes"})
    assert (look_around(odd).license, look_around(odd).chat_template) == (None, None)
    assert isinstance(found, Surroundings)


@pytest.mark.parametrize(
    ("info", "kept"),
    [
        ({"cardData": {"license": "mit"}, "tags": ["license:other"]}, {"license": "mit"}),
        ({"cardData": {"license": ["mit"]}}, {"license": "mit"}),
        ({"cardData": {}, "tags": ["x", 3, "license:apache-2.0"]}, {"license": "apache-2.0"}),
        ({"cardData": {"license": ["mit", "x"]}, "tags": None}, {}),
        ({"cardData": "x", "tags": "license:mit"}, {}),
    ],
)
def test_the_listing_keeps_the_license(info: dict[str, object], kept: dict[str, str]) -> None:
    """That of the card, else that of the tags; what makes no sense is left out."""
    raw = json.dumps({"id": "org/name", "sha": SHA, "siblings": [], **info}).encode()
    assert parse_listing(raw).metadata == kept


@pytest.mark.parametrize(
    ("config", "known"),
    [
        ({"tokenizer_config": {"chat_template": "x"}}, True),
        ({"tokenizer_config": {}, "chat_template_jinja": "x"}, True),
        ({"tokenizer_config": {}}, False),
        ({"model_type": "llama"}, None),
        ({"tokenizer_config": []}, None),
    ],
)
def test_the_listing_tells_of_a_chat_template(
    config: dict[str, object], known: bool | None
) -> None:
    """Whether there is one, where the Hub looked at the tokenizer at all."""
    raw = json.dumps({"id": "org/name", "sha": SHA, "siblings": [], "config": config}).encode()
    assert parse_listing(raw).metadata.get("chat_template") is known
