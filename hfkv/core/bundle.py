"""The headers of all weights files in one JSON answer → shards, none of it taken on trust.

`{"index": {"metadata": …}, "headers": {file: header}}` is what the Hub's endpoint
`safetensors-metadata` answers. Headers are decoded one at a time: a model of 92,000 tensors
has 11 MB of them.

Source: huggingface_hub 2.4.0, HfApi.get_sharded_safetensors_metadata.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hfkv.core.headers import Shard, read_tree
from hfkv.core.jsontext import gc_paused
from hfkv.errors import MalformedError

__all__ = ["parse_bundle"]

_WHERE = "safetensors-metadata"
_PADDING = 64  # bytes that a writer may have padded a header with
_BLANK = re.compile(r"[ \t\n\r]*")

_plain = json.JSONDecoder().raw_decode
_pairs = json.JSONDecoder(object_pairs_hook=tuple).raw_decode


def parse_bundle(raw: bytes, sizes: Mapping[str, int]) -> tuple[Shard, ...]:
    """Return the shards of exactly those files whose `sizes` in bytes are known.

    The length of a header is not part of the answer: it is what the tensors leave of the
    file, and must agree with the length of the JSON. Raises MalformedError for anything odd.
    """
    found: dict[str, Shard] = {}

    def one_header(text: str, name: str, at: int) -> int:
        tree, end = _pairs(text, at)
        if name not in sizes or name in found:
            raise MalformedError(f"a header of another file: {name[:80]!r}", where=_WHERE)
        found[name] = _shard(tree, end - at, sizes[name], name)
        return end

    def top(text: str, name: str, at: int) -> int:
        return _members(text, at, one_header) if name == "headers" else int(_plain(text, at)[1])

    try:
        with gc_paused():
            text = raw.decode()
            end = _members(text, 0, top)
    except (ValueError, IndexError, RecursionError):  # UnicodeDecodeError is a ValueError
        raise MalformedError("not valid JSON", where=_WHERE) from None
    if _after_blanks(text, end) != len(text):
        raise MalformedError("more than one JSON object", where=_WHERE)
    if found.keys() != sizes.keys():
        raise MalformedError("it lacks headers of listed files", where=_WHERE)
    return tuple(found[name] for name in sizes)


def _shard(tree: Any, length: int, size: int, path: str) -> Shard:
    """Return one shard; `length` is that of its header as it was written in the answer."""
    shard = read_tree(tree, header_bytes=8, path=path)
    header = size - shard.info.data_bytes
    if not 0.9 * length <= header - 8 <= 2 * length + _PADDING:
        raise MalformedError(
            f"its tensors leave {header:,} of {size:,} bytes for a header of {length:,}",
            where=path,
        )
    return replace(shard, info=replace(shard.info, header_bytes=header))


def _members(text: str, at: int, read: Callable[[str, str, int], int]) -> int:
    """Hand every member of the JSON object at `at` to `read`, and return where it ends.

    `read` is given the text, the key and where its value begins; it returns the value's end.
    """
    at = _expect(text, at, "{")
    if text[at] == "}":
        return at + 1
    while True:
        if text[at] != '"':
            raise ValueError(at)
        key, at = _plain(text, at)
        at = read(text, key, _expect(text, at, ":"))
        at = _after_blanks(text, at)
        if text[at] == "}":
            return at + 1
        at = _expect(text, at, ",")


def _expect(text: str, at: int, char: str) -> int:
    """Return where the text goes on after `char`, which must come next."""
    at = _after_blanks(text, at)
    if text[at] != char:
        raise ValueError(char)
    return _after_blanks(text, at + 1)


def _after_blanks(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    assert match is not None
    return match.end()
