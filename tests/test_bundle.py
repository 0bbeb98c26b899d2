"""All headers in one answer: taken only when they agree with the file list to the byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hub_models import FIRST, SECOND, SHARDS

from hfkv.core.bundle import parse_bundle
from hfkv.core.headers import parse_shard
from hfkv.errors import MalformedError

SIZES = {SHARDS[0]: len(FIRST), SHARDS[1]: len(SECOND)}
HEADERS = {
    name: json.loads(file.first[8:]) for name, file in zip(SHARDS, (FIRST, SECOND), strict=True)
}


def answer(headers: Any) -> bytes:
    """Return an answer of the endpoint."""
    return json.dumps({"index": {"metadata": {"total_size": 136}}, "headers": headers}).encode()


@pytest.mark.parametrize("between", [(",", ":"), (", ", ": "), (" ,\r", ":\t")])
def test_the_same_shards_as_from_the_files(between: tuple[str, str]) -> None:
    """Sizes, tensors and names are those that the files themselves give, in their order."""
    whole = {"headers": HEADERS, "index": [{}, 1.5, None]}
    raw = json.dumps(whole, separators=between).encode()
    assert parse_bundle(raw, SIZES) == tuple(
        parse_shard(file.first, file_size=len(file), path=name)
        for name, file in zip(SHARDS, (FIRST, SECOND), strict=True)
    )


def test_order_is_that_of_the_list() -> None:
    """The answer may list them in any order."""
    headers = dict(reversed(HEADERS.items()))
    shards = parse_bundle(answer(headers), SIZES)
    assert [shard.info.path for shard in shards] == list(SHARDS)


ODD: dict[str, tuple[bytes, str]] = {
    "a file too many": (
        answer({**HEADERS, "other.safetensors": HEADERS[SHARDS[0]]}),
        "safetensors-metadata: a header of another file: 'other.safetensors'",
    ),
    "a path": (
        answer({"../../etc/passwd": HEADERS[SHARDS[0]]}),
        "safetensors-metadata: a header of another file: '../../etc/passwd'",
    ),
    "a file too few": (
        answer({SHARDS[0]: HEADERS[SHARDS[0]]}),
        "safetensors-metadata: it lacks headers of listed files",
    ),
    "one file twice": (
        b'{"headers": {"%s": %s, "%s": {}}}'
        % (SHARDS[0].encode(), json.dumps(HEADERS[SHARDS[0]]).encode(), SHARDS[0].encode()),
        f"safetensors-metadata: a header of another file: '{SHARDS[0]}'",
    ),
    "no headers": (b'{"index": {}}', "safetensors-metadata: it lacks headers of listed files"),
    "nothing": (b"{}", "safetensors-metadata: it lacks headers of listed files"),
    "a list": (b"[]", "safetensors-metadata: not valid JSON"),
    "a number as key": (b"{1: {}}", "safetensors-metadata: not valid JSON"),
    "cut off": (answer(HEADERS)[:-1], "safetensors-metadata: not valid JSON"),
    "cut off in a header": (answer(HEADERS)[:90], "safetensors-metadata: not valid JSON"),
    "more behind it": (answer(HEADERS) + b"{}", "safetensors-metadata: more than one JSON object"),
    "not text": (b'{"headers": {"\xff": 1}}', "safetensors-metadata: not valid JSON"),
    "a page": (b"<!DOCTYPE html>", "safetensors-metadata: not valid JSON"),
    "empty": (b"", "safetensors-metadata: not valid JSON"),
    "deep": (b'{"index": ' + b"[" * 100_000, "safetensors-metadata: not valid JSON"),
    "a long number": (
        b'{"index": ' + b"9" * 5000 + b"}",
        "safetensors-metadata: not valid JSON",
    ),
    "a header that is a list": (
        answer({**HEADERS, SHARDS[0]: []}),
        f"{SHARDS[0]}: its header is not a JSON object",
    ),
    "another tensor": (
        answer(
            {**HEADERS, SHARDS[0]: {"w": {"dtype": "U8", "shape": [100], "data_offsets": [0, 100]}}}
        ),
        (
            f"{SHARDS[0]}: its tensors leave {len(FIRST) - 100} of {len(FIRST)} bytes "
            "for a header of 64"
        ),
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_anything_odd_is_refused(case: str) -> None:
    """What is left is read from the files themselves."""
    raw, message = ODD[case]
    with pytest.raises(MalformedError) as caught:
        parse_bundle(raw, SIZES)
    assert caught.value.message == message


@pytest.mark.parametrize("more", [-40, 400])
def test_a_file_of_another_size_is_another_file(more: int) -> None:
    """The header is what the tensors leave of the file: as long as its JSON, or nearly."""
    with pytest.raises(MalformedError, match="its tensors leave"):
        parse_bundle(answer(HEADERS), {**SIZES, SHARDS[0]: len(FIRST) + more})
