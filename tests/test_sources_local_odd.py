"""What is odd or broken in a local checkpoint, and the sentence for it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from local_models import CONFIG, checkpoint, codes

from hfkv.cli.exits import Exit, exit_for_error
from hfkv.errors import MalformedError, UnreadableError, UnsupportedError, UsageError
from hfkv.sources import load


def test_missing_shard(tmp_path: Path) -> None:
    """An interrupted download is sized as far as it goes."""
    folder = checkpoint(tmp_path / "m", 3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    files = load(str(folder))
    assert sum(group.count for group in files.tensors) == 2
    assert codes(files) == ["missing-shard"]


def test_files_in_subfolders_that_the_index_names(tmp_path: Path) -> None:
    """They are part of the model; what the index does not name is not; one may be missing."""
    folder = checkpoint(tmp_path / "m", 3)
    whole = load(str(folder))
    index = folder / "model.safetensors.index.json"
    named = json.loads(index.read_text(encoding="utf-8"))
    (folder / "sub" / "deep").mkdir(parents=True)
    moved = {
        "model-00001-of-00003.safetensors": "sub/model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors": "sub/deep/second.safetensors",
    }
    for old, new in moved.items():
        (folder / old).rename(folder / new)
    named["weight_map"] = {
        tensor: moved.get(file, file) for tensor, file in named["weight_map"].items()
    }
    index.write_text(json.dumps(named), encoding="utf-8")
    (folder / "sub" / "other.safetensors").write_bytes(b"not read")
    files = load(str(folder))
    assert codes(files) == []
    assert files.weight_files == ("model-00003-of-00003.safetensors", *sorted(moved.values()))
    assert files.tensors == whole.tensors
    (folder / moved["model-00001-of-00003.safetensors"]).unlink()
    assert codes(load(str(folder))) == ["missing-shard"]


def test_empty_folder(tmp_path: Path) -> None:
    """A folder without files is no model."""
    with pytest.raises(UnreadableError) as caught:
        load(str(tmp_path))
    assert caught.value.message == f"{tmp_path}: the folder holds no files"


def test_folder_of_something_else(tmp_path: Path) -> None:
    """A folder of other files is no model either."""
    (tmp_path / "notes.txt").write_text("hi")
    with pytest.raises(UnreadableError) as caught:
        load(str(tmp_path))
    assert caught.value.message == f"{tmp_path}: no model here: neither config.json nor weights"


def test_folder_of_pickles(tmp_path: Path) -> None:
    """Pickled weights are not opened; with a config that is a problem, without one the end."""
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04")
    with pytest.raises(UnsupportedError) as caught:
        load(str(tmp_path))
    assert caught.value.message == (
        f"{tmp_path}: only pickled weights, whose sizes cannot be read safely: pytorch_model.bin"
    )
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert codes(load(str(tmp_path))) == ["pickle-weights"]


def test_gguf(tmp_path: Path) -> None:
    """GGUF comes later; until then it is a sentence."""
    path = tmp_path / "m-Q4_0.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(UnsupportedError) as caught:
        load(str(path))
    assert caught.value.message == f"{path}: GGUF files are not read yet"


CONTENTS: dict[str, tuple[str, bytes, str]] = {
    "empty weights": (
        "model.safetensors",
        b"",
        "{}: empty (0 bytes): not a safetensors file",
    ),
    "cut weights": (
        "model.safetensors",
        (100).to_bytes(8, "little") + b"{",
        "{}: its header claims 100 bytes, and the whole file has 9",
    ),
    "a pointer": (
        "model.safetensors",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "{}: a Git LFS pointer, not the file itself",
    ),
    "empty config": (
        "config.json",
        b"",
        "{}: not valid JSON (Expecting value, line 1 column 1)",
    ),
    "config a list": (
        "config.json",
        b"[1]",
        "{}: expected a JSON object at the top, got a list",
    ),
    "config too large": (
        "config.json",
        b'{"a": "' + b"x" * 10_000_001 + b'"}',
        "{}: more than 10,000,000 bytes, too large for what it is",
    ),
    "index no object": (
        "model.safetensors.index.json",
        b"5",
        "model.safetensors.index.json: expected a JSON object at the top, got a number",
    ),
}


@pytest.mark.parametrize("case", CONTENTS)
def test_broken_file(tmp_path: Path, case: str) -> None:
    """Each broken file is named with what is wrong with it."""
    name, raw, message = CONTENTS[case]
    folder = checkpoint(tmp_path / "m")
    (folder / name).write_bytes(raw)
    with pytest.raises(MalformedError) as caught:
        load(str(folder))
    assert caught.value.message == message.format(folder / name)


JSON_FILES: dict[str, tuple[str, bytes, type[Exception], str]] = {
    "list": ("c.json", b"[]", MalformedError, "expected a JSON object at the top, got a list"),
    "index": ("i.json", b'{"weight_map": {}}', UsageError, "an index of weights files"),
    "no snapshot": (
        "x.hfkv.json",
        b"{}",
        MalformedError,
        "not a snapshot: it has no schema hfkv.snapshot/1",
    ),
    "report": (
        "report.json",
        b'{"schema": "hfkv.inspect/1"}',
        MalformedError,
        "not a snapshot: it has no schema hfkv.snapshot/1",
    ),
    "text": ("notes.txt", b"hi", UsageError, "not a kind of file that hfkv reads"),
}


@pytest.mark.parametrize("case", JSON_FILES)
def test_file_that_is_no_model(tmp_path: Path, case: str) -> None:
    """Other files are told apart."""
    name, raw, kind, message = JSON_FILES[case]
    path = tmp_path / name
    path.write_bytes(raw)
    with pytest.raises(kind) as caught:
        load(str(path))
    assert str(caught.value) == f"{path}: {message}"


def test_dead_link(tmp_path: Path) -> None:
    """A link to nothing is reported where the file is needed."""
    folder = checkpoint(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("nowhere")
    with pytest.raises(UnreadableError) as caught:
        load(str(folder))
    assert caught.value.message == f"{folder}/model.safetensors: no such file or folder"


def test_circle_of_links(tmp_path: Path) -> None:
    """Links that lead to themselves do not lead anywhere."""
    link = tmp_path / "model.safetensors"
    link.symlink_to(link)
    with pytest.raises(UnreadableError) as caught:
        load(str(link))
    assert caught.value.message == f"{link}: its symbolic links go round in a circle"


def test_folder_named_like_a_file(tmp_path: Path) -> None:
    """A folder where config.json should be is as good as no config."""
    folder = checkpoint(tmp_path / "m")
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()
    assert codes(load(str(folder))) == ["no-config"]
    with pytest.raises(UnreadableError) as caught:
        load(str(folder), config_path=str(folder))
    assert caught.value.message == f"{folder}: it is a folder, and a file is needed"


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made, contextlib.chdir(path.parent):
        made.bind(path.name)  # a socket's path may not be longer than 107 bytes


@pytest.mark.parametrize("make", [_pipe, _device, _socket])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    "name",
    ["config.json", "model.safetensors", "model.safetensors.index.json", "m.hfkv.json"],
)
def test_what_is_no_regular_file_is_never_opened(
    tmp_path: Path, make: Callable[[Path], None], name: str, alone: bool
) -> None:
    """A pipe would wait for a writer for ever, a device have no end; in a folder or by itself."""
    folder = checkpoint(tmp_path / "m")
    path = folder / name
    path.unlink(missing_ok=True)
    make(path)
    if name == "m.hfkv.json" and not alone:
        assert codes(load(str(folder))) == []  # no part of a checkpoint
        return
    with pytest.raises(UnreadableError) as caught:
        load(str(path if alone else folder))
    assert caught.value.message == f"{path}: it is not a regular file"
    assert exit_for_error(caught.value) is Exit.UNREADABLE


def test_permission_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that may not be read is told as such."""
    folder = checkpoint(tmp_path / "m")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UnreadableError) as caught:
        load(str(folder))
    assert caught.value.message == f"{folder}/config.json: permission denied"
    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(UnreadableError) as caught:
        load(str(folder))
    assert caught.value.message == f"{folder}: permission denied"
    monkeypatch.setattr(Path, "is_dir", refuse)
    with pytest.raises(UnreadableError) as caught:
        load(str(folder))
    assert caught.value.message == f"{folder}: permission denied"
