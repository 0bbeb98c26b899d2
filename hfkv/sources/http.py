"""Ranged reads over HTTP: redirects, retries, rate limits, one deadline.

One seam: `Client.fetch(url, start, stop)`. Every failure to get an answer is an
UnreadableError; what an answer means is for the caller to say.
"""

from __future__ import annotations

import copy
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import NamedTuple, Self

from hfkv import __version__
from hfkv.core.counts import counted
from hfkv.core.record import dataclass
from hfkv.errors import UnreadableError
from hfkv.sources.bodies import BadBodyError, read_body
from hfkv.sources.environment import Token
from hfkv.sources.pace import Pace
from hfkv.sources.transport import BROKEN, Response, Transport, explain, may_pass
from hfkv.sources.wire import (
    host_of,
    length_of,
    limit_reached,
    next_hop,
    origin_of,
    promised,
    retry_after,
)

__all__ = ["Answer", "Client"]

_CONNECT = 5.0
_READ = 10.0
_LEAST_READ = 0.5
_TRIES = 4
_TRIES_WHEN_LIMITED = 12  # a limit is no fault: there is an answer, only later
_LONGEST_WAIT = 30.0
_LONGEST_WINDOW = 600.0  # the Hub counts in windows of five minutes
_ERROR_BODY = 65_536
_REDIRECTS = {301, 302, 303, 307, 308}
_RETRIED = {408, 429, 500, 502, 503, 504}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server said in the end: the last answer of a chain of redirects.

    `headers` are those of that answer; `commit` is the X-Repo-Commit the Hub named on the
    way; `url` is where the bytes came from; `total` is the size of the whole file, where a
    ranged answer told it.
    """

    status: int
    body: bytes
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    commit: str | None = None
    total: int | None = None


class _BrokenError(Exception):
    """A request that got no whole answer; the cause is what the library raised."""

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self.host = host


class _Ask(NamedTuple):
    url: str
    start: int
    stop: int | None
    limit: int


class Client:
    """A pool of connections to one Hub and its CDNs, with a deadline for all that is asked.

    The token goes to the origin of `endpoint` and nowhere else. A `patient` client waits
    for as long as a server that limits the rate asks it to, deadline or not.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        token: Token | None,
        timeout: float,
        connections: int,
        patient: bool = False,
    ) -> None:
        self.endpoint = endpoint
        self.token = token
        self.timeout = timeout
        self._end = time.monotonic() + timeout
        self._origin = origin_of(endpoint)
        self._patient = patient
        self._transport = Transport(connections)
        self._pace = Pace()
        self._closed = threading.Event()
        self.elsewhere: set[str] = set()  # origins that redirects led to

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every wait, and close the connections that are idle."""
        self._closed.set()
        self._transport.close()

    def limited(self, timeout: float) -> Client:
        """Return a client of the same connections with a deadline of its own."""
        client = copy.copy(self)
        client.timeout = timeout
        client._end = time.monotonic() + timeout  # noqa: SLF001  it is one of us
        return client

    def as_nobody(self) -> Client:
        """Return a client of the same connections and deadline without the token."""
        client = copy.copy(self)
        client.token = None
        return client

    def spares(self, url: str, count: int) -> list[Callable[[], None]]:
        """Return what opens so many connections that later requests to a host find ready."""
        return self._transport.spares(url, count, timeout=_CONNECT)

    def left(self) -> float:
        """Return the seconds left; raises UnreadableError when there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.timed_out()
        return left

    def timed_out(self) -> UnreadableError:
        """Return the failure of the whole run to finish in time."""
        return UnreadableError(
            f"no complete answer from {self.endpoint} within {self.timeout:g} s",
            hint="try again, or give it longer with --timeout SECONDS",
            code="timeout",
        )

    def fetch(
        self, url: str, start: int = 0, stop: int | None = None, *, limit: int = 10_000_000
    ) -> Answer:
        """Return the answer to GET, of the bytes from `start` to `stop` where that is given.

        Transport faults, short bodies and 408/429/5xx are tried again while there is time.
        A server that ignores the range is read only as far as `stop`. Raises
        UnreadableError when there is no answer, or one of more than `limit` bytes.
        """
        ask = _Ask(url, start, stop, limit)
        attempt = 0
        while True:
            attempt += 1
            self._take_turn(url)
            try:
                answer = self._follow(ask)
            except _BrokenError as broken:
                told = explain(broken, broken.host)
                if attempt >= _TRIES or not may_pass(broken):
                    raise told from None
                if not self._back_off(attempt):  # the deadline is what ends it
                    raise (self.timed_out() if told.code == "timeout" else told) from None
                continue
            if answer.status not in _RETRIED or not self._may_ask_again(answer, attempt):
                return answer

    def _may_ask_again(self, answer: Answer, attempt: int) -> bool:
        """Wait as the server asks, or as seems good; return False when it is not to be."""
        limited = answer.status == 429
        if attempt >= (_TRIES_WHEN_LIMITED if limited else _TRIES):
            return False
        asked = retry_after(answer.headers)
        if asked is None:
            return self._back_off(attempt, limited=limited)
        if limited:
            self._pace.pause(self._counted_as(answer.url), asked)
        return self._wait(asked, limited=True)

    def _back_off(self, attempt: int, *, limited: bool = False) -> bool:
        longest = min(0.25 * 2**attempt, 4.0)
        return self._wait(random.uniform(longest / 4, longest), limited=limited)  # noqa: S311

    def _take_turn(self, url: str) -> None:
        """Wait while the server counts no further requests, if there is time for it."""
        seconds = self._pace.left(self._counted_as(url))
        if seconds:
            jitter = random.uniform(0, 0.25)  # noqa: S311  not all at once
            self._wait(seconds + jitter, limited=True)

    def _counted_as(self, url: str) -> str:
        """Return what a rate limit covers: the Hub's API, its files, or another host."""
        if url.startswith(f"{self.endpoint}/api/"):
            return "api"
        return "files" if origin_of(url) == self._origin else host_of(url)

    def _wait(self, seconds: float, *, limited: bool) -> bool:
        """Sleep; return False at once when there is no time for it."""
        if self._patient and limited:
            if seconds > _LONGEST_WINDOW:
                return False
            self._end = max(self._end, time.monotonic() + seconds + self.timeout)
        elif seconds > min(_LONGEST_WAIT, self._end - time.monotonic()):
            return False
        return not self._closed.wait(seconds)

    def _follow(self, ask: _Ask) -> Answer:
        url, commit = ask.url, None
        seen = {url}
        while True:
            try:
                with self._send(url, ask) as response:
                    if origin_of(url) == self._origin:
                        commit = commit or response.headers.get("X-Repo-Commit")
                    self._note_limit(url, response.headers)
                    location = response.headers.get("Location")
                    if response.status_code not in _REDIRECTS or not location:
                        return self._read(response, ask, url, commit)
                    # a body that has been read leaves the connection free for the next request
                    self._take(response, _ERROR_BODY)
            except BROKEN as error:
                raise _BrokenError(host_of(url)) from error
            url = next_hop(url, location, seen)
            if origin_of(url) != self._origin:
                self.elsewhere.add("/".join(url.split("/", 3)[:3]))

    def _note_limit(self, url: str, headers: Mapping[str, str]) -> None:
        seconds = limit_reached(headers)
        if seconds is not None:
            self._pace.pause(self._counted_as(url), seconds)

    def _send(self, url: str, ask: _Ask) -> Response:
        headers = {"User-Agent": f"hfkv/{__version__}", "Accept-Encoding": "gzip"}
        if ask.stop is not None:
            headers["Range"] = f"bytes={ask.start}-{ask.stop - 1}"
            headers["Accept-Encoding"] = "identity"  # with gzip, the Hub ignores the range
        if self.token is not None and origin_of(url) == self._origin:
            headers["Authorization"] = f"Bearer {self.token.value}"
        left = self.left()
        # a third of the time: one request that hangs must not use up all there is
        read = min(_READ, max(left / 3, _LEAST_READ), left)
        return self._transport.get(url, headers, connect=min(_CONNECT, left), read=read)

    def _read(self, response: Response, ask: _Ask, url: str, commit: str | None) -> Answer:
        status, total = response.status_code, None
        if ask.stop is not None and status == 206:
            length, total = promised(response.headers, ask.start, ask.stop)
            body, ended = self._take(response, length)
            if len(body) != length or not ended:
                raise BadBodyError(f"{counted(len(body), 'byte')} where {length:,} were promised")
        elif ask.stop is not None and status == 200:
            # The range was ignored: take what was asked for from the front, leave the rest.
            total = length_of(response.headers)
            body = self._take(response, ask.stop)[0][ask.start :]
        else:
            limit = ask.limit if status == 200 else _ERROR_BODY
            body, ended = self._take(response, limit)
            if status == 200 and not ended:
                raise UnreadableError(
                    f"{host_of(url)} sends more than the {limit:,} bytes that make sense here",
                    code="too-large",
                )
            body = self._without_token(body)
        return Answer(
            status=status,
            body=body,
            url=url,
            headers=response.headers,
            commit=commit,
            total=total,
        )

    def _without_token(self, body: bytes) -> bytes:
        """Return a listing, config or refusal without the token, should it be said back."""
        if self.token is None or self.token.value.encode() not in body:
            return body
        return self.token.taken_out(body.decode("utf-8", "surrogateescape")).encode(
            "utf-8", "surrogateescape"
        )

    def _take(self, response: Response, limit: int) -> tuple[bytes, bool]:
        return read_body(response.raw, response.headers, limit, self.left)
