"""Safetensors files of a few bytes, right and wrong."""

from __future__ import annotations

import struct

A = '"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'


def encode(header: str | bytes, data: int = 4) -> bytes:
    """Return a file with this header and so many bytes of data."""
    raw = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(raw)) + raw + b"\0" * data


def stray(text: str) -> str:
    """Return a header whose tensor has a field that nobody reads."""
    return '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":' + text + "}}"


def sized(dtype: str, shape: str, end: int) -> bytes:
    """Return a file with one tensor whose offsets give it `end` bytes."""
    header = f'{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[0,{end}]}}}}'
    return encode(header, end)


HUGE = str(2**63 - 1)
