"""Checkpoints on this machine: folders, single files, snapshots, and everything odd."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from hfkv.core.files import ModelFiles, RepoFile, Target
from hfkv.errors import MalformedError, UnreadableError, UnsupportedError, UsageError
from hfkv.sources import load, save_snapshot

CONFIG = {"model_type": "llama", "num_hidden_layers": 2}


def checkpoint(folder: Path, shards: int = 1) -> Path:
    """Write a checkpoint with one layer in each file, and an index when there are several."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    names = ["model.safetensors"]
    if shards > 1:
        names = [f"model-{i:05}-of-{shards:05}.safetensors" for i in range(1, shards + 1)]
        weight_map = {f"model.layers.{i}.w": name for i, name in enumerate(names)}
        index = {"metadata": {"total_size": 48 * shards}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for i, name in enumerate(names):
        save_file({f"model.layers.{i}.w": np.zeros((4, 6), np.float16)}, folder / name)
    return folder


def codes(files: ModelFiles) -> list[str]:
    """Return what was odd."""
    return [problem.code for problem in files.problems]


@pytest.mark.parametrize("shards", [1, 3])
def test_folder(tmp_path: Path, shards: int) -> None:
    """A folder as the safetensors package and save_pretrained write it."""
    folder = checkpoint(tmp_path / "m", shards)
    (folder / "generation_config.json").write_text('{"eos_token_id": 2}')
    (folder / "subfolder").mkdir()
    files = load(str(folder))
    assert files.target == Target(kind="folder", id=str(folder))
    assert files.config == CONFIG
    assert files.side == {"generation_config.json": {"eos_token_id": 2}}
    assert [(g.name, g.dtype, g.shape, g.count) for g in files.tensors] == [
        ("model.layers.{}.w", "F16", (4, 6), shards)
    ]
    assert files.problems == ()
    sizes = {file.path: file.size for file in files.files}
    assert sizes == {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}


def test_folder_of_links(tmp_path: Path) -> None:
    """The cache of huggingface_hub is links to blobs: they are followed."""
    real = checkpoint(tmp_path / "real", 2)
    folder = tmp_path / "links"
    folder.mkdir()
    for path in real.iterdir():
        (folder / path.name).symlink_to(path)
    assert load(str(folder)).problems == ()


def test_only_headers_are_read(tmp_path: Path) -> None:
    """A file of 5 GB costs what its header costs."""
    folder = tmp_path / "m"
    folder.mkdir()
    header = json.dumps(
        {"w": {"dtype": "U8", "shape": [5_000_000_000], "data_offsets": [0, 5_000_000_000]}}
    ).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 5_000_000_000)
    files = load(str(folder))
    assert files.headers[0].data_bytes == 5_000_000_000
    assert codes(files) == ["no-config"]


def test_lone_config(tmp_path: Path) -> None:
    """A config.json alone has no weights, and says nothing odd."""
    path = checkpoint(tmp_path / "m") / "config.json"
    assert load(str(path)) == ModelFiles(
        target=Target(kind="file", id=str(path)),
        files=(RepoFile(path="config.json", size=path.stat().st_size),),
        config=CONFIG,
    )


def test_lone_weights(tmp_path: Path) -> None:
    """One safetensors file is that file, with the config beside it where there is one."""
    folder = checkpoint(tmp_path / "m")
    path = folder / "model.safetensors"
    files = load(str(path))
    assert files.target == Target(kind="file", id=str(path))
    assert files.config == CONFIG
    assert codes(files) == []
    (folder / "config.json").unlink()
    assert codes(load(str(path))) == ["no-config"]


def test_lone_shard(tmp_path: Path) -> None:
    """One shard of several is sized alone, and it is said that it is a part."""
    folder = checkpoint(tmp_path / "m", 3)
    files = load(str(folder / "model-00002-of-00003.safetensors"))
    assert sum(group.count for group in files.tensors) == 1
    assert [(p.code, p.message, p.hint) for p in files.problems] == [
        (
            "part-of-model",
            "model-00002-of-00003.safetensors is one of the 3 files of a model",
            "give its folder to size the whole model",
        )
    ]


def test_snapshot_round_trip(tmp_path: Path) -> None:
    """A saved snapshot gives back what was read, as a snapshot."""
    files = load(str(checkpoint(tmp_path / "m", 2)))
    path = tmp_path / "m.hfkv.json"
    save_snapshot(files, path)
    again = load(str(path))
    assert again.target == Target(kind="snapshot", id=files.target.id)
    assert (again.files, again.tensors, again.headers, again.config) == (
        files.files,
        files.tensors,
        files.headers,
        files.config,
    )
    renamed = tmp_path / "renamed.json"
    path.rename(renamed)
    assert load(str(renamed)) == again


def test_config_of_the_users_own(tmp_path: Path) -> None:
    """`--config FILE` replaces the config of a folder, a file and a snapshot."""
    folder = checkpoint(tmp_path / "m")
    (folder / "config.json").write_text("not even JSON")
    mine = tmp_path / "mine.json"
    mine.write_text('{"model_type": "mine"}')
    snapshot = tmp_path / "m.hfkv.json"
    save_snapshot(load(str(folder), config_path=str(mine)), snapshot)
    for target in (folder, folder / "model.safetensors", snapshot, snapshot.with_suffix(".json")):
        assert load(str(target), config_path=str(mine)).config == {"model_type": "mine"}


def test_config_of_the_users_own_that_is_not_there(tmp_path: Path) -> None:
    """The file that `--config` names must exist and be an object."""
    folder = checkpoint(tmp_path / "m")
    with pytest.raises(UnreadableError) as caught:
        load(str(folder), config_path=str(tmp_path / "none.json"))
    assert caught.value.message == f"{tmp_path}/none.json: no such file or folder"


# --- odd and broken ---------------------------------------------------------------------------


def test_missing_shard(tmp_path: Path) -> None:
    """An interrupted download is sized as far as it goes."""
    folder = checkpoint(tmp_path / "m", 3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    files = load(str(folder))
    assert sum(group.count for group in files.tensors) == 2
    assert codes(files) == ["missing-shard"]


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
        "{}: expected a JSON object at the top, got list",
    ),
    "config too large": (
        "config.json",
        b'{"a": "' + b"x" * 10_000_001 + b'"}',
        "{}: more than 10,000,000 bytes, too large for what it is",
    ),
    "index no object": (
        "model.safetensors.index.json",
        b"5",
        "model.safetensors.index.json: expected a JSON object at the top, got int",
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
    "list": ("c.json", b"[]", MalformedError, "expected a JSON object at the top, got list"),
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


def test_named_pipe_does_not_hang(tmp_path: Path) -> None:
    """A pipe is never opened: that would wait for a writer for ever."""
    folder = checkpoint(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")
    with pytest.raises(UnreadableError) as caught:
        load(str(folder))
    assert caught.value.message == f"{folder}/model.safetensors: it is not a regular file"


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


# --- writing a snapshot -----------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_disk_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """A full disk leaves the old file as it was, no temporary one, and a sentence."""
    files = load(str(checkpoint(tmp_path / "m")))
    path = tmp_path / "out" / "m.hfkv.json"
    path.parent.mkdir()
    path.write_text("old")

    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(UnreadableError) as caught:
        save_snapshot(files, path)
    words = {
        errno.ENOSPC: "no space left on the disk",
        errno.EDQUOT: "the disk quota is used up",
        errno.EROFS: "the disk is read-only",
        errno.EACCES: "permission denied",
    }
    assert caught.value.message == f"{path}: cannot write the snapshot: {words[number]}"
    assert [entry.name for entry in path.parent.iterdir()] == ["m.hfkv.json"]
    assert path.read_text() == "old"


def test_no_such_folder_to_write_to(tmp_path: Path) -> None:
    """A missing folder is not made."""
    files = load(str(checkpoint(tmp_path / "m")))
    path = tmp_path / "none" / "m.hfkv.json"
    with pytest.raises(UnreadableError) as caught:
        save_snapshot(files, path)
    assert caught.value.message == f"{path}: cannot write the snapshot: no such file or folder"


def test_local_files_need_no_http(tmp_path: Path) -> None:
    """Reading a folder imports neither requests nor huggingface_hub."""
    folder = checkpoint(tmp_path / "m", 2)
    code = (
        "import sys; from hfkv.sources import load; load(sys.argv[1]);"
        "print(sorted({'requests', 'urllib3', 'huggingface_hub', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
