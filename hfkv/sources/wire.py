"""What HTTP headers and addresses mean, without an HTTP library."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from functools import lru_cache
from urllib.parse import urljoin, urlsplit

from hfkv.errors import UnreadableError
from hfkv.sources.bodies import BadBodyError

__all__ = [
    "host_of",
    "length_of",
    "limit_reached",
    "next_hop",
    "origin_of",
    "promised",
    "retry_after",
]

_REDIRECTS = 5
_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)", re.ASCII)


@lru_cache(64)
def origin_of(url: str) -> tuple[str, str | None, int]:
    """Return scheme, host and port: what a token belongs to."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


@lru_cache(64)
def host_of(url: str) -> str:
    """Return the host, and the port where one is given; never user names or queries."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


def next_hop(url: str, location: str, seen: set[str]) -> str:
    """Return where a redirect leads; raises UnreadableError where one must not follow."""
    host = host_of(url)
    try:
        target = urljoin(url, location)
        scheme, name, _ = origin_of(target)
    except ValueError:
        scheme, name = "", None
    if scheme not in {"http", "https"} or not name:
        raise UnreadableError(f"{host} redirects to an address that is not http", code="redirect")
    if scheme == "http" and url.startswith("https:"):
        raise UnreadableError(
            f"{host} redirects from https to http, which hfkv does not follow", code="redirect"
        )
    if target in seen or len(seen) > _REDIRECTS:
        raise UnreadableError(f"{host} redirects in a circle", code="redirect")
    seen.add(target)
    return target


def limit_reached(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until a rate limit that is used up (`r=0`) starts anew."""
    limit = re.search(r"\br=0\b.*?\bt=(\d{1,6})", headers.get("RateLimit", ""))
    return float(limit[1]) + 1 if limit else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds a server asks to wait: RateLimit, else Retry-After."""
    seconds = limit_reached(headers)
    if seconds is not None:
        return seconds
    text = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"\d{1,6}", text):
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):  # a year or a zone of twenty digits
        return None


def promised(headers: Mapping[str, str], start: int, stop: int) -> tuple[int, int | None]:
    """Return the length a 206 answer must have, and the size of the whole file."""
    match = _RANGE.fullmatch(headers.get("Content-Range", ""))
    if not match or int(match[1]) != start:
        raise BadBodyError("other bytes than those asked for")
    total = None if match[3] == "*" else int(match[3])
    end = min(stop, total) if total is not None else min(stop, int(match[2]) + 1)
    if int(match[2]) + 1 != end:
        raise BadBodyError("fewer bytes than those asked for")
    return end - start, total


def length_of(headers: Mapping[str, str]) -> int | None:
    """Return the length of the whole body, None where it is not told."""
    text = headers.get("Content-Length", "")
    encoded = headers.get("Content-Encoding", "identity").lower() not in {"", "identity"}
    return None if encoded or not re.fullmatch(r"\d{1,19}", text) else int(text)
