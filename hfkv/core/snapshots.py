"""ModelFiles ↔ JSON, schema `hfkv.snapshot/1`: to replay a verdict without the model.

Small, because tensor names are templates and layer lists are ranges. Everything is checked
on reading: a snapshot is input like any other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from hfkv.core.counts import counted
from hfkv.core.dtypes import SAFETENSORS_BITS
from hfkv.core.files import (
    HeaderInfo,
    IndexInfo,
    ModelFiles,
    Problem,
    RepoFile,
    Target,
    TensorGroup,
)
from hfkv.core.jsontext import MAX_DEPTH, parse
from hfkv.core.templates import check_groups
from hfkv.errors import MalformedError, UnsupportedError

__all__ = ["SCHEMA", "dumps", "format_ranges", "from_json", "loads", "parse_ranges", "to_json"]

SCHEMA = "hfkv.snapshot/1"
_MAX_LAYERS = 1_000_000
_KINDS = ("hub", "folder", "file", "snapshot")
_T = TypeVar("_T")


def dumps(files: ModelFiles) -> str:
    """Return the snapshot as text, one item a line, so that two of them can be compared."""
    fields = []
    for key, value in to_json(files).items():
        text = _dump_list(value) if isinstance(value, list) and value else json.dumps(value)
        fields.append(f"{json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(fields) + "\n}\n"


def loads(raw: bytes, *, where: str) -> ModelFiles:
    """Return what a snapshot file holds.

    Raises MalformedError, and UnsupportedError for a schema of another version.
    """
    # a config may nest MAX_DEPTH deep, and lies two levels down
    return from_json(parse(raw, where=where, max_depth=MAX_DEPTH + 2), where=where)


def to_json(files: ModelFiles) -> dict[str, Any]:
    """Return plain JSON data; empty optional fields are left out."""
    target = files.target
    return {
        "schema": SCHEMA,
        "target": {
            "kind": target.kind,
            "id": target.id,
            "revision": target.revision,
            "sha": target.sha,
        },
        "files": [
            _compact(path=file.path, size=file.size, sha256=file.sha256) for file in files.files
        ],
        "weight_files": list(files.weight_files),
        "config": files.config,
        **({} if files.config_name == "config.json" else {"config_name": files.config_name}),
        "side": files.side,
        "tensors": [_group_to_json(group) for group in files.tensors],
        "headers": [_header_to_json(header) for header in files.headers],
        "index": files.index
        and {
            "path": files.index.path,
            "total_size": files.index.total_size,
            "files": files.index.files,
        },
        "hub": files.hub,
        "problems": [
            _compact(code=problem.code, message=problem.message, hint=problem.hint)
            for problem in files.problems
        ],
    }


def from_json(data: Any, *, where: str) -> ModelFiles:
    """Return the ModelFiles in JSON data, every field checked.

    Raises MalformedError with the dotted path of the first wrong value, and
    UnsupportedError for a schema of another version.
    """
    if not isinstance(data, dict) or not str(data.get("schema")).startswith("hfkv.snapshot/"):
        raise MalformedError(f"not a snapshot: it has no schema {SCHEMA}", where=where)
    if data["schema"] != SCHEMA:
        raise UnsupportedError(
            f"a snapshot of schema {data['schema']!r:.40}, and this hfkv reads {SCHEMA}",
            where=where,
            hint="upgrade hfkv",
        )
    at = f"{where}: "
    index = data.get("index")
    config, name = data.get("config"), "config.json"
    if "config_name" in data:
        name = _field(data, "config_name", str, at)
    if config is not None:
        _field(data, "config", dict, at)
    check_groups(len(_field(data, "tensors", list, at)), where=where)
    files = ModelFiles(
        target=_target(_field(data, "target", dict, at), f"{at}target."),
        files=_each(data, "files", at, _file),
        weight_files=_strings(data, "weight_files", at),
        config=config,
        config_name=name,
        side=_field(data, "side", dict, at),
        tensors=_each(data, "tensors", at, _group),
        headers=_each(data, "headers", at, _header),
        index=None if index is None else _index(_field(data, "index", dict, at), f"{at}index."),
        hub=_field(data, "hub", dict, at),
        problems=_each(data, "problems", at, _problem),
    )
    _check_totals(files, where)
    return files


def format_ranges(numbers: Iterable[int]) -> str:
    """Return sorted numbers as ranges.

    >>> format_ranges([0, 1, 2, 5, 7, 8])
    '0-2,5,7-8'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


def parse_ranges(text: str, *, limit: int, where: str) -> tuple[int, ...]:
    """Return the numbers in ranges as `format_ranges` writes them, at most `limit` of them.

    Raises MalformedError for anything else, before a long range is unrolled.
    """
    numbers: list[int] = []
    for run in text.split(",") if text else ():
        first, dash, last = run.partition("-")
        ends = (first, last) if dash else (first, first)
        if not all(end.isascii() and end.isdigit() and len(end) < 10 for end in ends):
            raise MalformedError(f"not a list of ranges: {text[:40]!r}", where=where)
        start, stop = int(ends[0]), int(ends[1]) + 1
        if stop - start > limit - len(numbers):
            raise MalformedError(f"more than {limit:,} numbers in it", where=where)
        if start >= stop or (numbers and start <= numbers[-1]):
            raise MalformedError(f"ranges out of order: {text[:40]!r}", where=where)
        numbers.extend(range(start, stop))
    return tuple(numbers)


def _dump_list(items: list[Any]) -> str:
    return "[\n " + ",\n ".join(json.dumps(item) for item in items) + "\n]"


def _compact(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None and value != {}}


def _group_to_json(group: TensorGroup) -> dict[str, Any]:
    return {
        "name": group.name,
        "dtype": group.dtype,
        "shape": list(group.shape),
        "nbytes": group.nbytes,
        "count": group.count,
        "layers": format_ranges(group.layers),
    }


def _header_to_json(header: HeaderInfo) -> dict[str, Any]:
    return _compact(
        path=header.path,
        header_bytes=header.header_bytes,
        data_bytes=header.data_bytes,
        tensors=header.tensors,
        metadata=header.metadata,
    )


def _field(table: dict[str, Any], key: str, kind: type[_T], at: str) -> _T:
    value = table.get(key)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        wanted = {dict: "an object", list: "a list", str: "a string", int: "an integer"}[kind]
        got = "nothing" if key not in table else f"{value!r:.40}"
        raise MalformedError(f"expected {wanted}, got {got}", where=at + key)
    return value


def _optional(table: dict[str, Any], key: str, kind: type[_T], at: str) -> _T | None:
    return None if table.get(key) is None else _field(table, key, kind, at)


def _number(table: dict[str, Any], key: str, at: str, least: int = 0) -> int:
    value = _field(table, key, int, at)
    if value < least:
        raise MalformedError(f"expected at least {least}, got {value!r:.40}", where=at + key)
    return value


def _items(table: dict[str, Any], key: str, at: str) -> Iterator[tuple[str, Any]]:
    for place, item in enumerate(_field(table, key, list, at)):
        yield f"{at}{key}[{place}]", item


def _each(
    table: dict[str, Any], key: str, at: str, read: Callable[[dict[str, Any], str], _T]
) -> tuple[_T, ...]:
    found = []
    for place, item in _items(table, key, at):
        if not isinstance(item, dict):
            raise MalformedError(f"expected an object, got {item!r:.40}", where=place)
        found.append(read(item, f"{place}."))
    return tuple(found)


def _strings(table: dict[str, Any], key: str, at: str) -> tuple[str, ...]:
    found = []
    for place, item in _items(table, key, at):
        if not isinstance(item, str):
            raise MalformedError(f"expected a string, got {item!r:.40}", where=place)
        found.append(item)
    return tuple(found)


def _target(table: dict[str, Any], at: str) -> Target:
    kind = _field(table, "kind", str, at)
    if kind not in _KINDS:
        raise MalformedError(
            f"expected one of {', '.join(_KINDS)}, got {kind!r:.40}", where=f"{at}kind"
        )
    return Target(
        kind=kind,
        id=_field(table, "id", str, at),
        revision=_optional(table, "revision", str, at),
        sha=_optional(table, "sha", str, at),
    )


def _file(table: dict[str, Any], at: str) -> RepoFile:
    return RepoFile(
        path=_field(table, "path", str, at),
        size=None if table.get("size") is None else _number(table, "size", at),
        sha256=_optional(table, "sha256", str, at),
    )


def _group(table: dict[str, Any], at: str) -> TensorGroup:
    shape = []
    for place, dim in _items(table, "shape", at):
        if type(dim) is not int or dim < 0:
            raise MalformedError(f"expected a size, got {dim!r:.40}", where=place)
        shape.append(dim)
    count = _number(table, "count", at, least=1)
    group = TensorGroup(
        name=_field(table, "name", str, at),
        dtype=_field(table, "dtype", str, at),
        shape=tuple(shape),
        nbytes=_number(table, "nbytes", at),
        count=count,
        layers=parse_ranges(
            _field(table, "layers", str, at),
            limit=min(count, _MAX_LAYERS),
            where=f"{at}layers",
        ),
    )
    bits = SAFETENSORS_BITS.get(group.dtype)
    if bits is not None and group.elements * bits != group.nbytes * 8:
        raise MalformedError(
            f"{group.dtype} of shape {list(shape)!s:.60} does not take "
            f"{counted(group.nbytes, 'byte')}",
            where=f"{at}nbytes",
        )
    return group


def _header(table: dict[str, Any], at: str) -> HeaderInfo:
    metadata = _optional(table, "metadata", dict, at) or {}
    for key in metadata:
        _field(metadata, key, str, f"{at}metadata.")
    return HeaderInfo(
        path=_field(table, "path", str, at),
        header_bytes=_number(table, "header_bytes", at, least=8),
        data_bytes=_number(table, "data_bytes", at),
        tensors=_number(table, "tensors", at),
        metadata=metadata,
    )


def _index(table: dict[str, Any], at: str) -> IndexInfo:
    files = _field(table, "files", dict, at)
    return IndexInfo(
        path=_field(table, "path", str, at),
        total_size=None if table.get("total_size") is None else _number(table, "total_size", at),
        files={name: _number(files, name, f"{at}files.", least=1) for name in files},
    )


def _problem(table: dict[str, Any], at: str) -> Problem:
    return Problem(
        code=_field(table, "code", str, at),
        message=_field(table, "message", str, at),
        hint=_optional(table, "hint", str, at),
    )


def _check_totals(files: ModelFiles, where: str) -> None:
    """Refuse tensors that do not sum to what their headers hold."""
    for what, found, claimed in (
        (
            "tensors",
            sum(group.count for group in files.tensors),
            sum(header.tensors for header in files.headers),
        ),
        (
            "bytes",
            sum(group.count * group.nbytes for group in files.tensors),
            sum(header.data_bytes for header in files.headers),
        ),
    ):
        if found != claimed:
            raise MalformedError(
                f"its tensor groups sum to {found:,} {what}, and its headers to {claimed:,}",
                where=where,
            )
