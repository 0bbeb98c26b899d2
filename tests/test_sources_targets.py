"""One grammar for everything a command can be pointed at."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils._validators import validate_repo_id
from hypothesis import given, settings
from hypothesis import strategies as st

from hfkv.errors import HfkvError, UnreadableError, UsageError
from hfkv.sources.targets import HubTarget, LocalTarget, parse

SHARD = "model-00002-of-00004.safetensors"
HUB: dict[str, HubTarget] = {
    "org/name": HubTarget(repo="org/name"),
    "gpt2": HubTarget(repo="gpt2"),
    "org/name/": HubTarget(repo="org/name"),
    "Org-1/na.me_2": HubTarget(repo="Org-1/na.me_2"),
    "org/name@v1.0": HubTarget(repo="org/name", revision="v1.0"),
    "org/name@refs/pr/3": HubTarget(repo="org/name", revision="refs/pr/3"),
    "org/name@" + "a" * 40: HubTarget(repo="org/name", revision="a" * 40),
    "org/name:a.safetensors": HubTarget(repo="org/name", file="a.safetensors"),
    "org/name:sub/a-Q4_K_M.gguf": HubTarget(repo="org/name", file="sub/a-Q4_K_M.gguf"),
    "org/name@dev:a@b.gguf": HubTarget(repo="org/name", revision="dev", file="a@b.gguf"),
    f"org/name:{SHARD}": HubTarget(repo="org/name", file=SHARD),
    "hf://org/name": HubTarget(repo="org/name"),
    "hf://models/org/name": HubTarget(repo="org/name"),
    "hf://org/name@v1": HubTarget(repo="org/name", revision="v1"),
    "https://huggingface.co/org/name": HubTarget(repo="org/name"),
    "https://huggingface.co/org/name/": HubTarget(repo="org/name"),
    "https://HuggingFace.co/org/name?library=x#y": HubTarget(repo="org/name"),
    "http://www.huggingface.co/org/name": HubTarget(repo="org/name"),
    "https://hf.co/org/name": HubTarget(repo="org/name"),
    "https://huggingface.co/gpt2": HubTarget(repo="gpt2"),
    "https://huggingface.co/gpt2/tree/main": HubTarget(repo="gpt2"),
    "https://huggingface.co/models/org/name": HubTarget(repo="org/name"),
    "https://huggingface.co/org/name/tree/v2": HubTarget(repo="org/name", revision="v2"),
    "https://huggingface.co/org/name/tree/refs%2Fpr%2F3": HubTarget(
        repo="org/name", revision="refs/pr/3"
    ),
    "https://huggingface.co/org/name/tree/refs/pr/3": HubTarget(
        repo="org/name", revision="refs/pr/3"
    ),
    "https://huggingface.co/org/name/commit/" + "a" * 40: HubTarget(
        repo="org/name", revision="a" * 40
    ),
    "https://huggingface.co/org/name/blob/main/config.json": HubTarget(repo="org/name"),
    "https://huggingface.co/org/name/blob/v2/sub/a.gguf": HubTarget(
        repo="org/name", revision="v2", file="sub/a.gguf"
    ),
    "https://huggingface.co/org/name/resolve/main/a.safetensors?download=true": HubTarget(
        repo="org/name", file="a.safetensors"
    ),
    f"https://huggingface.co/org/name/blob/main/{SHARD}": HubTarget(repo="org/name"),
    "https://huggingface.co/org/name/discussions/5": HubTarget(repo="org/name"),
    "https://mirror.test:8443/hf/org/name/tree/v2": HubTarget(repo="org/name", revision="v2"),
}


@pytest.mark.parametrize("written", HUB)
def test_repository(written: str) -> None:
    """Every way to write a repository, from the keyboard or from a browser."""
    assert parse(written, endpoint="https://mirror.test:8443/hf") == HUB[written]


@pytest.mark.parametrize("written", ["org/name", "hf://org/name", "https://hf.co/org/name"])
def test_revision_option(written: str) -> None:
    """`--revision` is the same as `@`, and may repeat it."""
    expected = HubTarget(repo="org/name", revision="v1")
    assert parse(written, revision="v1") == expected
    assert parse("org/name@v1", revision="v1") == expected


def test_two_revisions() -> None:
    """Two revisions that differ are one too many."""
    with pytest.raises(UsageError) as caught:
        parse("org/name@v1", revision="v2")
    assert caught.value.message == "two revisions are given: v1 and v2"


def test_existing_path_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is spelled like a repository is the folder; hf:// means the Hub."""
    (tmp_path / "org" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert parse("org/name") == LocalTarget(path=Path("org/name"))
    assert parse("hf://org/name") == HubTarget(repo="org/name")
    with pytest.raises(UsageError) as caught:
        parse("org/name", revision="v1")
    assert caught.value.message == "org/name is a local path, which has no revisions"
    assert caught.value.hint == "leave --revision out, or write the repository as hf://org/name"


def test_any_existing_path(tmp_path: Path) -> None:
    """Whatever exists is local, dead links included."""
    odd = tmp_path / "odd@name:x"
    odd.write_bytes(b"")
    link = tmp_path / "link"
    link.symlink_to("nowhere")
    assert parse(str(odd)) == LocalTarget(path=odd)
    assert parse(str(link)) == LocalTarget(path=link)


@pytest.mark.parametrize(
    "written",
    ["./model", "../model", "/model", "~/model", "model.safetensors", "a/config.json", "x.gguf",
     "a\\b", "x.hfkv.json", "@x", ":a"],
)  # fmt: skip
def test_path_that_is_not_there(written: str) -> None:
    """What can only be a path is told as a path."""
    with pytest.raises(UnreadableError) as caught:
        parse(written)
    assert caught.value.message == f"no such file or folder: {written}"


FORMS = "give org/name, org/name@revision, a Hub address, a folder or a file"
WRONG: dict[str, tuple[str, str]] = {
    "": ("'' names no model", FORMS),
    "  ": ("'  ' names no model", FORMS),
    "org/na\x1bme": ("'org/na\\x1bme' names no model", FORMS),
    "a/b/c": ("a/b/c is neither a path that exists nor a repository", FORMS),
    "org/na me": ("org/na me is neither a path that exists nor a repository", FORMS),
    "org//name": ("org//name is neither a path that exists nor a repository", FORMS),
    "org/na--me": ("org/na--me is neither a path that exists nor a repository", FORMS),
    "org/name.git": ("org/name.git is neither a path that exists nor a repository", FORMS),
    "hf://": ("hf:// is neither a path that exists nor a repository", FORMS),
    "https://huggingface.co": (
        "https://huggingface.co is neither a path that exists nor a repository",
        FORMS,
    ),
    "https://[::1": ("https://[::1 is neither a path that exists nor a repository", FORMS),
    "https://huggingface.co/datasets/org/name": (
        "https://huggingface.co/datasets/org/name is not a model",
        FORMS,
    ),
    "https://github.com/org/name": (
        "https://github.com/org/name is not an address at https://huggingface.co",
        FORMS + "; a mirror goes into HF_ENDPOINT",
    ),
    "s3://bucket/model": (
        "s3://bucket/model is not an address at https://huggingface.co",
        FORMS + "; a mirror goes into HF_ENDPOINT",
    ),
    "org/name@": (
        "'' is not the name of a revision",
        "give a branch, a tag, a commit or refs/pr/N",
    ),
    "org/name@a..b": (
        "'a..b' is not the name of a revision",
        "give a branch, a tag, a commit or refs/pr/N",
    ),
    "org/name@a b": (
        "'a b' is not the name of a revision",
        "give a branch, a tag, a commit or refs/pr/N",
    ),
    "org/name:README.md": (
        "'README.md' is not a weights file",
        "a file after the colon ends in .safetensors; leave it out for the whole model",
    ),
    "org/name:../a.safetensors": (
        "org/name:../a.safetensors is neither a path that exists nor a repository",
        FORMS,
    ),
}


@pytest.mark.parametrize("written", WRONG)
def test_wrongly_written(written: str) -> None:
    """Each mistake has a sentence, and a hint at what would be right."""
    with pytest.raises(UsageError) as caught:
        parse(written)
    assert (caught.value.message, caught.value.hint) == WRONG[written]


NAMES = st.text(alphabet="aZ0._-/", min_size=1, max_size=12) | st.sampled_from(
    ["a" * 96, "a" * 97, "a/" + "b" * 94, "a/" + "b" * 95, "a/b.git", "a/b--c", "a..b/c"]
)


@settings(max_examples=300, deadline=None)
@given(name=NAMES)
def test_same_names_as_huggingface_hub(name: str) -> None:
    """What huggingface_hub refuses as a repository id is refused here, and nothing else."""
    try:
        validate_repo_id(name)
        expected = True
    except HFValidationError:
        expected = False
    try:
        accepted = parse(f"hf://{name}") == HubTarget(repo=name)
    except HfkvError:
        accepted = False
    assert accepted == (expected and not name.startswith("models/"))


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet=string.printable + "é☃", max_size=40))
def test_any_text(text: str) -> None:
    """No argument crashes the parser."""
    for written in (text, f"hf://{text}", f"https://huggingface.co/{text}", f"https://{text}"):
        try:
            result: object = parse(written)
        except HfkvError as error:
            result = error
            printable = error.message.isprintable()
        else:
            printable = True
        assert isinstance(result, (HubTarget, LocalTarget, HfkvError))
        assert printable
