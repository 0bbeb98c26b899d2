"""Response bodies, read only as far as needed and inflated only as far as allowed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hfkv.core.counts import counted

__all__ = ["BadBodyError", "read_body"]

_CHUNK = 65_536


class BadBodyError(Exception):
    """A body that is not what its headers promised; asking again may help."""


def read_body(
    raw: Any, headers: Mapping[str, str], limit: int, tick: Callable[[], object]
) -> tuple[bytes, bool]:
    """Return at most `limit` bytes of a body, decoded, and whether that was all of it.

    `raw` is urllib3's response, unread; `tick` is called before every chunk and raises when
    time is up. Raises BadBodyError for a body that ends too early or cannot be decoded.
    """
    encoding = headers.get("Content-Encoding", "identity").strip().lower()
    chunks = _chunks(raw, headers, tick)
    if encoding in {"gzip", "x-gzip"}:
        chunks = _inflate(chunks)
    elif encoding not in {"", "identity"}:
        raise BadBodyError(f"an unknown encoding ({encoding[:20]!r})")
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) >= limit:
            more = len(body) > limit or next(chunks, b"") != b""
            return bytes(body[:limit]), not more
    return bytes(body), True


def _chunks(raw: Any, headers: Mapping[str, str], tick: Callable[[], object]) -> Iterator[bytes]:
    # read1 returns what is there; read waits for a whole chunk, however slowly it drips
    read = getattr(raw, "read1", raw.read)
    length = headers.get("Content-Length", "")
    left = int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None
    while left != 0:
        tick()
        chunk = read(_CHUNK if left is None else min(_CHUNK, left), decode_content=False)
        if not chunk:
            if left:
                raise BadBodyError(f"a body that ends {counted(left, 'byte')} too early")
            return
        left = None if left is None else left - len(chunk)
        yield chunk


def _inflate(chunks: Iterator[bytes]) -> Iterator[bytes]:
    decoder = zlib.decompressobj(wbits=31)
    try:
        for chunk in chunks:
            data = decoder.decompress(chunk, _CHUNK)
            while data:
                yield data
                data = decoder.decompress(decoder.unconsumed_tail, _CHUNK)
            if decoder.eof:
                return
    except zlib.error:
        raise BadBodyError("a compressed body that is damaged") from None
    raise BadBodyError("a compressed body that ends too early")
