"""Safetensors header bytes → tensors: every format check, then name templates.

A file is 8 bytes (little-endian length n), n bytes of JSON, then the data. The checks are
those of safetensors 0.8.0 in the same order, so the same bytes are accepted and refused. One
exception: a dtype that safetensors does not know yet is reported and sized by its offsets.

Source: github.com/huggingface/safetensors, safetensors/src/tensor.rs, read_metadata, validate.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

from hfkv.core.counts import counted
from hfkv.core.dtypes import SAFETENSORS_BITS
from hfkv.core.files import HeaderInfo, Problem, TensorGroup
from hfkv.core.jsontext import depth, gc_paused
from hfkv.core.record import dataclass
from hfkv.core.templates import Row, group_rows
from hfkv.errors import MalformedError

__all__ = ["MAX_HEADER", "Shard", "bytes_needed", "parse_shard", "read_tree"]

MAX_HEADER = 100_000_000
_USIZE = 2**64 - 1
_FIELDS = ("dtype", "shape", "data_offsets")
_SERDE_DEPTH = 125  # serde_json refuses 128 levels; the header and the tensor are two of them
_FLOAT_MAX = int(sys.float_info.max)  # serde reads longer integers as floats
_METADATA_KEPT = 4096
_LFS_POINTER = b"version "


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One parsed header: its sizes, its tensors by template, and every tensor's name."""

    info: HeaderInfo
    groups: tuple[TensorGroup, ...]
    names: tuple[str, ...]
    problems: tuple[Problem, ...] = ()


def bytes_needed(first: bytes, file_size: int | None, *, where: str) -> int:
    """Return how many of the file's first bytes hold its whole header.

    `first` is what has been read so far; with fewer than 8 bytes the answer is 8. A claim
    that cannot be true of a file of `file_size` bytes (None: unknown) is refused at once.
    Raises MalformedError.
    """
    if file_size is not None and file_size < 8:
        what = f"only {counted(file_size, 'byte')} long" if file_size else "empty (0 bytes)"
        raise MalformedError(f"{what}: not a safetensors file", where=where)
    if len(first) < 8:
        return 8
    length = int.from_bytes(first[:8], "little")
    if length > MAX_HEADER:
        if first.startswith(_LFS_POINTER):
            raise MalformedError(
                "a Git LFS pointer, not the file itself",
                where=where,
                hint="run `git lfs pull`, or download it with `hf download`",
            )
        raise MalformedError(
            f"its header claims {length:,} bytes, and safetensors allows {MAX_HEADER:,}",
            where=where,
            hint="not a safetensors file, or its first bytes are damaged",
        )
    if file_size is not None and 8 + length > file_size:
        raise MalformedError(
            f"its header claims {length:,} bytes, and the whole file has {file_size:,}",
            where=where,
            hint="the file is cut off, or is not a safetensors file",
        )
    return 8 + length


def parse_shard(first: bytes, *, file_size: int | None, path: str) -> Shard:
    """Return the tensors that a header describes, checked against the size of its file.

    `first` holds the file's first bytes, at least as many as `bytes_needed` says. Without a
    `file_size` the data section is taken to end with the last tensor. Raises MalformedError.
    """
    end = bytes_needed(first, file_size, where=path)
    if len(first) < end:
        raise MalformedError(
            f"its header claims {end - 8:,} bytes, and only "
            f"{counted(len(first), 'byte')} could be read",
            where=path,
            hint="the file is cut off",
        )
    with gc_paused():
        shard = read_tree(_decode(_text(first[8:end], path), path), header_bytes=end, path=path)
    data_bytes = shard.info.data_bytes
    if file_size is not None and end + data_bytes != file_size:
        raise MalformedError(
            f"its tensors fill {counted(data_bytes, 'byte')}, "
            f"and the file holds {file_size - end:,}",
            where=path,
            hint="the file is cut off, or something was appended to it",
        )
    return shard


def read_tree(tree: Any, *, header_bytes: int, path: str) -> Shard:
    """Return the tensors of a decoded header, its objects as tuples of pairs.

    `header_bytes` are the bytes of the file before its data. Raises MalformedError.
    """
    metadata, rows = _rows(tree, path)
    rows.sort()
    data_bytes = _check_layout(rows, path)
    groups = group_rows(rows, where=path)
    return Shard(
        info=HeaderInfo(
            path=path,
            header_bytes=header_bytes,
            data_bytes=data_bytes,
            tensors=len(rows),
            metadata=metadata if len(str(metadata)) <= _METADATA_KEPT else {},
        ),
        groups=groups,
        names=tuple([name for _, _, name, _, _ in rows]),
        problems=_unknown_dtypes(groups, path),
    )


def _text(raw: bytes, where: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(
            f"its header is not UTF-8 text (byte {8 + error.start})", where=where
        ) from None


def _finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise ValueError(number)
    return value


def _integer(number: str) -> int | float:
    # serde reads -0 as the float it is
    return -0.0 if number == "-0" else int(number)


def _constant(name: str) -> None:
    raise ValueError(name)


def _decode(text: str, where: str) -> Any:
    """Return the header with objects as tuples of pairs, so that duplicate keys stay visible."""
    try:
        tree = json.loads(
            text,
            object_pairs_hook=tuple,
            parse_float=_finite,
            parse_int=_integer if "-0" in text else int,
            parse_constant=_constant,
        )
        if "\\u" in text:
            json.dumps(tree, ensure_ascii=False).encode()
    except RecursionError:
        raise MalformedError("its header is nested too deeply", where=where) from None
    except UnicodeEncodeError:
        raise MalformedError("its header has half a surrogate pair", where=where) from None
    except json.JSONDecodeError as error:
        place = f"{error.msg} at character {error.pos}"
        raise MalformedError(f"its header is not valid JSON ({place})", where=where) from None
    except ValueError:
        raise MalformedError("its header has a number that is none", where=where) from None
    return tree


def _rows(tree: Any, where: str) -> tuple[dict[str, str], list[Row]]:
    if not isinstance(tree, tuple):
        raise MalformedError("its header is not a JSON object", where=where)
    metadata: dict[str, str] | None = None
    rows: dict[str, Row] = {}
    for name, value in tree:
        if name == "__metadata__":
            if metadata is not None:
                raise MalformedError("its header has two __metadata__", where=where)
            metadata = _metadata(value, where)
        else:
            row = _usual_row(name, value) or _row(name, value)
            if row is None:
                what = f"tensor {_short(name)} has no proper dtype, shape and data_offsets"
                raise MalformedError(what, where=where)
            rows[name] = row
    return metadata or {}, list(rows.values())


def _metadata(value: Any, where: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, tuple) or not all(isinstance(text, str) for _, text in value):
        raise MalformedError("its __metadata__ does not map strings to strings", where=where)
    return dict(value)


def _usual_row(name: str, value: Any) -> Row | None:
    """Return an entry as every writer spells it, None for any other: a model has 500,000."""
    try:
        (key1, dtype), (key2, shape), (key3, (begin, end)) = value
        if (
            key1 == "dtype"
            and key2 == "shape"
            and key3 == "data_offsets"
            and type(dtype) is str
            and type(shape) is list
            and type(value[2][1]) is list
            and type(begin) is int
            and type(end) is int
        ):
            for number in shape:
                if type(number) is not int:
                    return None
            return begin, end, name, dtype, tuple(shape)
    except (TypeError, ValueError):
        pass
    return None


def _row(name: str, value: Any) -> Row | None:
    """Return one entry of the header, None when it is not a tensor's."""
    try:
        dtype, shape, offsets = _fields(value)
        begin, end = offsets
        if type(dtype) is not str:
            dtype = _dtype(dtype)
        if type(shape) is not list or type(offsets) is not list:
            return None
        for number in (begin, end, *shape):
            if type(number) is not int:
                return None
    except (TypeError, ValueError):
        return None
    return begin, end, name, dtype, tuple(shape)


def _fields(value: Any) -> tuple[Any, Any, Any]:
    """Return dtype, shape and data_offsets of one entry, however it is spelled."""
    if type(value) is tuple and len(value) == 3:
        (key1, dtype), (key2, shape), (key3, offsets) = value
        if key1 == "dtype" and key2 == "shape" and key3 == "data_offsets":
            return dtype, shape, offsets
    if isinstance(value, list):  # serde reads a struct from a list too
        dtype, shape, offsets = value
        return dtype, shape, offsets
    found = [(key, item) for key, item in value if key in _FIELDS]
    for key, item in value:
        if key not in _FIELDS:
            _check_stray(item)
    if len(dict(found)) != len(found):
        raise ValueError(value)
    dtype, shape, offsets = map(dict(found).get, _FIELDS)
    return dtype, shape, offsets


def _dtype(value: Any) -> str:
    ((name, empty),) = value  # serde's other spelling of a name: {"F32": null}
    if type(name) is not str or empty is not None:
        raise TypeError
    return name


def _check_stray(value: Any) -> None:
    """Refuse what serde refuses in fields that nobody reads: deep nests, endless numbers."""
    if depth(value) > _SERDE_DEPTH:
        raise ValueError
    level = [value]
    while level:
        for item in level:
            if type(item) is int and item > _FLOAT_MAX:
                raise ValueError
        level = [child for item in level if isinstance(item, (list, tuple)) for child in item]


def _check_layout(rows: list[Row], where: str) -> int:
    """Return where the data ends; every tensor must begin where the one before it ended."""
    spans: dict[tuple[str, tuple[int, ...]], int | None] = {}
    start = 0
    for begin, end, name, dtype, shape in rows:
        if begin != start or end < begin:
            raise MalformedError(
                f"tensor {_short(name)} lies at bytes {begin:,} to {end:,}, "
                f"and the one before it ends at {start:,}",
                where=where,
                hint="tensors must fill the data section without gaps or overlaps",
            )
        start = end
        key = (dtype, shape)
        if key not in spans:
            spans[key] = _span(dtype, shape, f"tensor {_short(name)}", where)
        span = spans[key]
        if span is not None and span != end - begin:
            raise MalformedError(
                f"tensor {_short(name)} ({dtype}, shape {list(shape)}) takes "
                f"{counted(span, 'byte')}, and its offsets give it {end - begin:,}",
                where=where,
            )
    return start


def _span(dtype: str, shape: tuple[int, ...], name: str, where: str) -> int | None:
    """Return the bytes of one tensor; None for a dtype whose width is not known."""
    elements = 1
    for dim in shape:
        elements *= dim
        if dim < 0 or dim > _USIZE:
            raise MalformedError(f"{name} has the impossible shape {list(shape)}", where=where)
        if elements > _USIZE:
            raise MalformedError(f"{name} has more elements than 64 bits count", where=where)
    bits = SAFETENSORS_BITS.get(dtype)
    if bits is None:
        return None
    if elements * bits > _USIZE:
        raise MalformedError(f"{name} has more bits than 64 bits count", where=where)
    whole, rest = divmod(elements * bits, 8)
    if rest:
        raise MalformedError(f"{name} does not fill whole bytes ({dtype})", where=where)
    return whole


def _unknown_dtypes(groups: tuple[TensorGroup, ...], path: str) -> tuple[Problem, ...]:
    unknown = sorted({group.dtype for group in groups} - SAFETENSORS_BITS.keys())
    return tuple(
        Problem(
            code="unknown-dtype",
            message=f"{path}: tensors of dtype {_short(dtype)}, which safetensors does not know",
            hint="their bytes are taken from the file's offsets and are exact",
        )
        for dtype in unknown
    )


def _short(text: str) -> str:
    """Return a name from outside, quoted, without control characters and not too long."""
    return repr(text if len(text) <= 80 else text[:77] + "...")
