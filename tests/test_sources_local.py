"""Checkpoints on this machine: folders, single files, snapshots."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from local_models import CONFIG, checkpoint, codes

from hfkv.core.files import ModelFiles, RepoFile, Target
from hfkv.errors import UnreadableError
from hfkv.sources import load
from hfkv.sources.snapshot import save_snapshot


@pytest.mark.parametrize("shards", [1, 3])
def test_folder(tmp_path: Path, shards: int) -> None:
    """A folder as the safetensors package and save_pretrained write it."""
    folder = checkpoint(tmp_path / "m", shards)
    (folder / "quantize_config.json").write_text('{"bits": 4}')
    (folder / "generation_config.json").write_text("of no interest")
    (folder / "subfolder").mkdir()
    files = load(str(folder))
    assert files.target == Target(kind="folder", id=str(folder))
    assert files.config == CONFIG
    assert files.side == {"quantize_config.json": {"bits": 4}}
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
