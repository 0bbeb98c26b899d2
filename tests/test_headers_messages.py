"""What is said of a header that is refused."""

from __future__ import annotations

import struct

import pytest
from header_bytes import HUGE, A, encode, sized, stray

from hfkv.core.headers import parse_shard
from hfkv.errors import MalformedError

MESSAGES = {
    b"": (0, "x: empty (0 bytes): not a safetensors file"),
    b"abc": (3, "x: only 3 bytes long: not a safetensors file"),
    struct.pack("<Q", 2**63): (
        100,
        "x: its header claims 9,223,372,036,854,775,808 bytes, and safetensors allows 100,000,000",
    ),
    b"version https://git-lfs.github.com/spec/v1\n": (
        130,
        "x: a Git LFS pointer, not the file itself",
    ),
    struct.pack("<Q", 93): (
        100,
        "x: its header claims 93 bytes, and the whole file has 100",
    ),
    struct.pack("<Q", 92) + b"{}": (
        100,
        "x: its header claims 92 bytes, and only 10 bytes could be read",
    ),
    encode(b'{"\xff":1}', 0): (15, "x: its header is not UTF-8 text (byte 10)"),
    encode("{,}", 0): (
        11,
        (
            "x: its header is not valid JSON (Expecting property name enclosed in double quotes "
            "at character 1)"
        ),
    ),
    encode("[]", 0): (10, "x: its header is not a JSON object"),
    encode(stray("NaN")): (
        len(encode(stray("NaN"))),
        "x: its header has a number that is none",
    ),
    encode('{"a":[1,2]}', 0): (
        19,
        "x: tensor 'a' has no proper dtype, shape and data_offsets",
    ),
    encode("{" + A.replace("[0,4]", "[2,6]") + "}"): (
        66,
        "x: tensor 'a' lies at bytes 2 to 6, and the one before it ends at 0",
    ),
    sized("F16", "[3]", 4): (
        66,
        "x: tensor 'a' (F16, shape [3]) takes 6 bytes, and its offsets give it 4",
    ),
    sized("F4", "[3]", 2): (63, "x: tensor 'a' does not fill whole bytes (F4)"),
    sized("F32", f"[{HUGE},3]", 4): (
        86,
        "x: tensor 'a' has more elements than 64 bits count",
    ),
    encode("{" + A + "}"): (
        1_000_066,
        "x: its tensors fill 4 bytes, and the file holds 1,000,004",
    ),
}


@pytest.mark.parametrize(("raw", "size", "message"), [(r, *rest) for r, rest in MESSAGES.items()])
def test_refusal_says_what_is_wrong(raw: bytes, size: int, message: str) -> None:
    """Each kind of damage has one sentence that names the file and the figures."""
    with pytest.raises(MalformedError) as caught:
        parse_shard(raw, file_size=size, path="x")
    assert caught.value.message == message


def test_name_from_outside_cannot_drive_the_terminal() -> None:
    """A hostile tensor name is shown escaped and shortened."""
    name = "\\u001b[31m" + "n" * 200
    with pytest.raises(MalformedError) as caught:
        parse_shard(encode(f'{{"{name}":0}}', 0), file_size=None, path="x")
    assert caught.value.message == (
        "x: tensor '\\x1b[31m" + "n" * 72 + "...' has no proper dtype, shape and data_offsets"
    )
