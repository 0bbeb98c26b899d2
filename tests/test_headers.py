"""The header parser accepts and refuses exactly what the safetensors package does."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from header_bytes import HUGE, A, encode, sized, stray
from hypothesis import given, settings
from hypothesis import strategies as st

from hfkv.core.dtypes import SAFETENSORS_BITS
from hfkv.core.files import HeaderInfo, Problem, TensorGroup
from hfkv.core.headers import bytes_needed, parse_shard
from hfkv.errors import MalformedError


def ours_accepts(raw: bytes) -> bool:
    """Return whether hfkv reads this file."""
    try:
        parse_shard(raw, file_size=len(raw), path="x")
    except MalformedError:
        return False
    return True


def safetensors_accepts(raw: bytes) -> bool:
    """Return whether the safetensors package reads this file."""
    try:
        safetensors.deserialize(raw)  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError:
        return False
    return True


TABLE = {
    "plain": encode("{" + A + "}"),
    "no bytes": b"",
    "seven bytes": b"\0" * 7,
    "length zero": b"\0" * 8,
    "length 2**64-1": b"\xff" * 8,
    "length 2**63": struct.pack("<Q", 2**63),
    "length over the cap": struct.pack("<Q", 100_000_001) + b"{}",
    "length beyond the file": struct.pack("<Q", 3) + b"{}",
    "no tensors": encode("{}", 0),
    "no tensors, one byte": encode("{}", 1),
    "space before": encode("  {" + A + "}"),
    "space after": encode("{" + A + "}  \n"),
    "NUL after": encode("{" + A + "}\0"),
    "rubbish after": encode("{" + A + "}{}"),
    "byte order mark": encode(b"\xef\xbb\xbf{}", 0),
    "not UTF-8": encode(b'{"\xff":1}', 0),
    "a list": encode("[]", 0),
    "null": encode("null", 0),
    "a tensor twice, the same": encode("{" + A + "," + A + "}"),
    "a tensor twice, the first no tensor": encode('{"a":5,' + A + "}"),
    "a tensor twice, the last no tensor": encode("{" + A + ',"a":5}'),
    "a tensor twice, other sizes": encode("{" + A.replace("[1]", "[2]") + "," + A + "}"),
    "a field twice": encode("{" + A.replace('"dtype"', '"dtype":"F32","dtype"') + "}"),
    "an unread field twice": encode(stray('1,"x":2')),
    "metadata": encode('{"__metadata__":{"format":"pt"},' + A + "}"),
    "metadata null": encode('{"__metadata__":null,' + A + "}"),
    "metadata a list": encode('{"__metadata__":[],' + A + "}"),
    "metadata of numbers": encode('{"__metadata__":{"a":1},' + A + "}"),
    "metadata twice": encode('{"__metadata__":{},"__metadata__":{},' + A + "}"),
    "metadata key twice": encode('{"__metadata__":{"a":"","a":"b"},' + A + "}"),
    "tensor as a list": encode('{"a":["F32",[1],[0,4]]}'),
    "tensor as a longer list": encode('{"a":["F32",[1],[0,4],1]}'),
    "tensor as a string": encode('{"a":"abc"}'),
    "dtype as a variant": encode("{" + A.replace('"F32"', '{"F32":null}') + "}"),
    "dtype as a full variant": encode("{" + A.replace('"F32"', '{"F32":1}') + "}"),
    "dtype a number": encode("{" + A.replace('"F32"', "0") + "}"),
    "dtype null": encode("{" + A.replace('"F32"', "null") + "}"),
    "dtype missing": encode('{"a":{"shape":[1],"data_offsets":[0,4]}}'),
    "shape missing": encode('{"a":{"dtype":"F32","data_offsets":[0,4]}}'),
    "offsets missing": encode('{"a":{"dtype":"F32","shape":[1]}}'),
    "fields in another order": encode('{"a":{"data_offsets":[0,4],"shape":[1],"dtype":"F32"}}'),
    "shape of a float": sized("F32", "[1.0]", 4),
    "shape of a bool": sized("F32", "[true]", 4),
    "shape 1 then true": encode(
        "{" + A + ',"b":{"dtype":"F32","shape":[true],"data_offsets":[4,8]}}', 8
    ),
    "shape of a string": sized("F32", '["1"]', 4),
    "shape an object": sized("F32", "{}", 4),
    "shape a string": sized("F32", '""', 4),
    "shape minus zero": sized("F32", "[-0]", 0),
    "shape negative": sized("F32", "[-1]", 4),
    "shape twice negative": sized("F32", "[-1,-1]", 4),
    "scalar": sized("F32", "[]", 4),
    "shape of zero": sized("F32", "[0]", 0),
    "zero before the overflow": sized("F32", f"[0,{HUGE},{HUGE}]", 0),
    "zero after the overflow": sized("F32", f"[{HUGE},{HUGE},0]", 0),
    "bits overflow": sized("F32", f"[{2**60}]", 0),
    "2**64-1 in a shape": sized("F32", f"[0,{2**64 - 1}]", 0),
    "2**64 in a shape": sized("F32", f"[0,{2**64}]", 0),
    "one offset": encode("{" + A.replace("[0,4]", "[0]") + "}"),
    "three offsets": encode("{" + A.replace("[0,4]", "[0,4,4]") + "}"),
    "offsets as an object": encode("{" + A.replace("[0,4]", '{"a":0,"b":4}') + "}"),
    "offsets of bools": encode("{" + A.replace("[0,4]", "[false,true]") + "}", 1),
    "offsets of floats": encode("{" + A.replace("[0,4]", "[0.0,4.0]") + "}"),
    "offsets mixed": encode("{" + A.replace("[0,4]", '[0,"4"]') + "}"),
    "offsets strings": encode("{" + A.replace("[0,4]", '["0","4"]') + "}"),
    "offsets minus zero": encode("{" + A.replace("[0,4]", "[-0,4]") + "}"),
    "offsets reversed": encode("{" + A.replace("[0,4]", "[4,0]") + "}"),
    "offsets with a gap": encode("{" + A.replace("[0,4]", "[4,8]") + "}", 8),
    "offsets overlap": encode("{" + A + "," + A.replace('"a"', '"b"') + "}", 8),
    "offsets huge": encode("{" + A.replace("[0,4]", f"[0,{2**64}]") + "}"),
    "one empty among others": encode(
        '{"z":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},' + A + "}"
    ),
    "trailing data": encode("{" + A + "}", 5),
    "missing data": encode("{" + A + "}", 3),
    "half a byte": sized("F4", "[1]", 1),
    "two F4": sized("F4", "[2]", 1),
    "four F6": sized("F6_E2M3", "[4]", 3),
    "wrong span": sized("F16", "[1]", 4),
    "empty name": encode("{" + A.replace('"a"', '""') + "}"),
    "escaped name": encode("{" + A.replace('"a"', '"\\u0061"') + "}"),
    "surrogate pair": encode("{" + A.replace('"a"', '"\\ud83d\\ude00"') + "}"),
    "half a surrogate pair": encode("{" + A.replace('"a"', '"\\ud83d"') + "}"),
    "control character": encode("{" + A.replace('"a"', '"\x01"') + "}"),
    "unread field": encode(stray('[1,{"y":null}]')),
    "unread NaN": encode(stray("NaN")),
    "unread infinity": encode(stray("-Infinity")),
    "unread 1e999": encode(stray("1e999")),
    "unread 10**30": encode(stray("1" + "0" * 30)),
    "unread 10**400": encode(stray("1" + "0" * 400)),
    "unread nested 10**400": encode(stray("[[1" + "0" * 400 + "]]")),
    "unread 10**5000": encode(stray("1" + "0" * 5000)),
    "unread depth 125": encode(stray("[" * 125 + "]" * 125)),
    "unread depth 126": encode(stray("[" * 126 + "]" * 126)),
    "unread depth 100,000": encode(stray("[" * 100_000 + "]" * 100_000)),
    "cut JSON": encode("{" + A),
    "leading zero": encode("{" + A.replace("[1]", "[01]") + "}"),
}


@pytest.mark.parametrize("name", TABLE)
def test_same_verdict_as_safetensors(name: str) -> None:
    """Every file in the table is accepted by both or refused by both."""
    assert ours_accepts(TABLE[name]) == safetensors_accepts(TABLE[name])


def test_table_holds_both_verdicts() -> None:
    """The table would notice a parser that accepts or refuses everything."""
    verdicts = [safetensors_accepts(raw) for raw in TABLE.values()]
    assert verdicts.count(True) >= 20
    assert verdicts.count(False) >= 40


NUMBERS = st.sampled_from([0, 1, 2, 3, 4, 8, -1, 1.0, True, None, "1", 2**64 - 1, 2**64])


TENSORS = st.fixed_dictionaries(
    {"dtype": st.sampled_from(["F32", "F16", "F4", "BF16", None, 3])},
    optional={
        "shape": st.lists(NUMBERS, max_size=3),
        "data_offsets": st.lists(NUMBERS, min_size=1, max_size=3),
        "extra": st.none() | st.floats(allow_nan=True),
    },
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Draw a valid file, then perhaps break one field or one byte of it."""
    header: dict[str, Any] = {}
    end = 0
    for name in draw(st.lists(st.text(max_size=6), max_size=4, unique=True)):
        dtype = draw(st.sampled_from(sorted(SAFETENSORS_BITS)))
        shape = draw(st.lists(st.integers(0, 4).map(lambda n: 4 * n), max_size=3))
        bits = SAFETENSORS_BITS[dtype] * int(np.prod(shape, dtype=int))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + bits // 8]}
        end += bits // 8
    if draw(st.booleans()):
        header[draw(st.sampled_from(["__metadata__", "b"]))] = draw(
            TENSORS | st.dictionaries(st.text(max_size=3), st.text(max_size=3) | NUMBERS)
        )
    raw = bytearray(encode(json.dumps(header, ensure_ascii=draw(st.booleans())), end))
    if draw(st.booleans()):
        place = draw(st.integers(0, min(len(raw) - 1, 200)))
        raw[place] = draw(st.integers(0, 255))
    return bytes(raw)


@settings(max_examples=300, deadline=None)
@given(raw=files())
def test_same_verdict_on_drawn_files(raw: bytes) -> None:
    """Valid files and files with one fault get the verdict that safetensors gives."""
    try:
        shard = parse_shard(raw, file_size=len(raw), path="x")
    except MalformedError:
        assert not safetensors_accepts(raw)
        return
    if not shard.problems:
        tensors = safetensors.deserialize(raw)  # type: ignore[no-untyped-call]
        assert shard.info.tensors == len(tensors)
        assert shard.info.data_bytes == sum(len(view["data"]) for _, view in tensors)
        assert sorted(shard.names) == sorted(name for name, _ in tensors)


@settings(max_examples=200, deadline=None)
@given(raw=st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    """Arbitrary bytes never raise anything but MalformedError, and never pass by accident."""
    assert ours_accepts(raw) == safetensors_accepts(raw)


@pytest.mark.parametrize(("have", "need"), [(0, 8), (7, 8), (8, 62), (40, 62), (62, 62), (66, 62)])
def test_need_more_bytes_is_not_broken(have: int, need: int) -> None:
    """A prefix of a good file asks for 8 bytes, then for exactly its header (54 bytes here)."""
    raw = encode("{" + A + "}")
    assert bytes_needed(raw[:have], len(raw), where="x") == need


def test_unknown_size_still_has_a_cap() -> None:
    """Without a file size the length is bounded by the format's own limit."""
    assert bytes_needed(struct.pack("<Q", 100_000_000), None, where="x") == 100_000_008
    with pytest.raises(MalformedError, match=r"claims 100,000,001 bytes"):
        bytes_needed(struct.pack("<Q", 100_000_001), None, where="x")


def test_file_written_by_safetensors_is_read_back() -> None:
    """Names, dtypes, shapes and sizes are those that were saved; layers come from the names."""
    raw = safetensors.numpy.save(
        {
            **{f"model.layers.{i}.w": np.zeros((2, 3), np.float16) for i in (0, 1, 10)},
            "lm_head.weight": np.zeros(5, np.float32),
        },
        metadata={"format": "pt"},
    )
    shard = parse_shard(raw, file_size=len(raw), path="m.safetensors")
    assert shard.groups == (
        TensorGroup(name="lm_head.weight", dtype="F32", shape=(5,), nbytes=20),
        TensorGroup(
            name="model.layers.{}.w",
            dtype="F16",
            shape=(2, 3),
            nbytes=12,
            count=3,
            layers=(0, 1, 10),
        ),
    )
    assert shard.info == HeaderInfo(
        path="m.safetensors",
        header_bytes=len(raw) - 56,
        data_bytes=20 + 3 * 12,
        tensors=4,
        metadata={"format": "pt"},
    )


def test_only_the_header_is_needed() -> None:
    """The bytes of the tensors themselves are not looked at, only their promised size."""
    raw = encode("{" + A + "}")
    assert parse_shard(raw[:-4], file_size=len(raw), path="x").info.data_bytes == 4
    assert parse_shard(raw[:-4], file_size=None, path="x").info.data_bytes == 4


def test_unknown_dtype_is_sized_by_its_offsets() -> None:
    """A format of tomorrow is reported, not refused: its bytes are exact all the same."""
    raw = sized("F5_NEW", "[8]", 5)
    assert not safetensors_accepts(raw)
    shard = parse_shard(raw, file_size=len(raw), path="x")
    assert shard.groups == (TensorGroup(name="a", dtype="F5_NEW", shape=(8,), nbytes=5),)
    assert shard.problems == (
        Problem(
            code="unknown-dtype",
            message="x: tensors of dtype 'F5_NEW', which safetensors does not know",
            hint="their bytes are taken from the file's offsets and are exact",
        ),
    )


def test_large_metadata_is_dropped() -> None:
    """Training logs that some tools hide in __metadata__ are not carried along."""
    raw = encode('{"__metadata__":{"log":"' + "x" * 5000 + '"},' + A + "}")
    assert parse_shard(raw, file_size=len(raw), path="x").info.metadata == {}
