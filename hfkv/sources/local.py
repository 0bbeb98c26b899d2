"""Models on this machine: a checkpoint folder, one file, a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hfkv.core.counts import kind_of
from hfkv.core.files import ModelFiles, Problem, RepoFile, Target
from hfkv.core.jsontext import MAX_DEPTH, parse
from hfkv.core.manifest import Index, Manifest, choose, index_name, parse_index
from hfkv.core.params import PARAMS, as_config
from hfkv.core.snapshots import from_json
from hfkv.errors import MalformedError, UnreadableError, UnsupportedError, UsageError
from hfkv.sources.assemble import assemble, side_files
from hfkv.sources.reading import (
    MAX_INDEX,
    read_object,
    read_shard,
    read_small,
    reason,
)

__all__ = ["load_folder", "load_path"]

_MAX_SNAPSHOT = 100_000_000


def load_path(path: Path, *, config: dict[str, Any] | None = None) -> ModelFiles:
    """Return what an existing path holds; `config` stands in for its config.json.

    Raises HfkvError.
    """
    try:
        is_folder = path.is_dir()
    except OSError as error:
        raise UnreadableError(reason(error), where=str(path)) from None
    if is_folder:
        return load_folder(path, Target(kind="folder", id=str(path)), config=config)
    if path.suffix == ".safetensors":
        return _load_weights(path, config)
    if path.suffix == ".json":
        return _load_json(path, config)
    if path.suffix == ".gguf":
        raise UnsupportedError(
            "GGUF files are not read yet",
            where=str(path),
            hint="inspect the original model that it was converted from",
            code="gguf",
        )
    raise UsageError(
        "not a kind of file that hfkv reads",
        where=str(path),
        hint="give a folder, config.json, *.safetensors or a *.hfkv.json snapshot",
        code="target",
    )


def load_folder(
    folder: Path, target: Target, *, config: dict[str, Any] | None = None
) -> ModelFiles:
    """Return the checkpoint in a folder: what `save_pretrained` writes, links included."""
    files = _list(folder)
    names = {file.path for file in files}
    if not names:
        raise UnreadableError("the folder holds no files", where=str(folder), code="not-found")
    if config is None and "config.json" in names:
        config = _object(folder, "config.json")
    index = _read_index(folder, files)
    files += _in_subfolders(folder, index)
    manifest = choose(files, index)
    return assemble(
        target=target,
        files=files,
        manifest=manifest,
        config=config,
        side={name: _object(folder, name) for name in side_files(files)},
        shards=[
            read_shard(folder / name, str(folder / name), name) for name in manifest.weight_files
        ],
        index=index,
    )


def _list(folder: Path) -> list[RepoFile]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise UnreadableError(reason(error), where=str(folder)) from None
    return [_entry(path, path.name) for path in entries if not path.is_dir()]


def _in_subfolders(folder: Path, index: Index | None) -> list[RepoFile]:
    """Return the files that an index names below the folder: only they are part of the model."""
    names = sorted(index.info.files) if index else ()
    nested = [(folder / name, name) for name in names if "/" in name]
    return [_entry(path, name) for path, name in nested if path.is_symlink() or path.is_file()]


def _entry(path: Path, name: str) -> RepoFile:
    try:
        size = path.stat().st_size
    except OSError:
        size = None  # a dead link: reported when the file is needed
    return RepoFile(path=name, size=size)


def _object(folder: Path, name: str) -> dict[str, Any]:
    return read_object(folder / name, str(folder / name))


def _read_index(folder: Path, files: Sequence[RepoFile]) -> Index | None:
    name = index_name(files)
    if name is None:
        return None
    return parse_index(read_small(folder / name, str(folder / name), MAX_INDEX), path=name)


def _load_weights(path: Path, config: dict[str, Any] | None) -> ModelFiles:
    shard = read_shard(path, str(path), path.name)
    beside = path.parent / "config.json"
    if config is None and beside.is_file():
        config = read_object(beside, str(beside))
    size = shard.info.header_bytes + shard.info.data_bytes
    files = assemble(
        target=Target(kind="file", id=str(path)),
        files=(RepoFile(path=path.name, size=size),),
        manifest=Manifest(weight_files=(path.name,)),
        config=config,
        side={},
        shards=[shard],
        index=None,
    )
    series = choose(_list(path.parent)).weight_files
    if path.name not in series or len(series) < 2:
        return files
    return files.with_problems(
        Problem(
            code="part-of-model",
            message=f"{path.name} is one of the {len(series)} files of a model",
            hint="give its folder to size the whole model",
        )
    )


def _load_json(path: Path, config: dict[str, Any] | None) -> ModelFiles:
    where = str(path)
    raw = read_small(path, where, _MAX_SNAPSHOT)
    data = parse(raw, where=where, max_depth=MAX_DEPTH + 2)
    if path.name.endswith(".hfkv.json") or (isinstance(data, dict) and "schema" in data):
        files = from_json(data, where=where)
        files = replace(files, target=replace(files.target, kind="snapshot"))
        return files.with_config(config)
    if not isinstance(data, dict):
        raise MalformedError(f"expected a JSON object at the top, got {kind_of(data)}", where=where)
    if "weight_map" in data:
        raise UsageError(
            "an index of weights files", where=where, hint="give its folder instead", code="target"
        )
    return ModelFiles(
        target=Target(kind="file", id=where),
        files=(RepoFile(path=path.name, size=len(raw)),),
        config=(path.name == PARAMS and as_config(data)) or data if config is None else config,
        config_name=path.name,
    )
