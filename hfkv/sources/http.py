"""The only module that knows the HTTP library: ranged reads, redirects, retries, one deadline.

One seam: `Client.fetch(url, start, stop)`. Every failure to get an answer is an
UnreadableError; what an answer means is for the caller to say.
"""

from __future__ import annotations

import errno
import os
import random
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import requests
import urllib3.exceptions
from requests.adapters import HTTPAdapter

from hfkv import __version__
from hfkv.errors import UnreadableError, UsageError
from hfkv.sources.bodies import BadBodyError, read_body
from hfkv.sources.environment import Token
from hfkv.sources.wire import host_of, length_of, next_hop, origin_of, promised, retry_after

__all__ = ["Answer", "Client"]

_CONNECT = 5.0
_READ = 10.0
_TRIES = 4
_HOSTS = 8  # the Hub and its CDNs
_LONGEST_WAIT = 30.0
_ERROR_BODY = 65_536
_REDIRECTS = {301, 302, 303, 307, 308}
_RETRIED = {408, 429, 500, 502, 503, 504}
_BROKEN = (requests.RequestException, urllib3.exceptions.HTTPError, OSError, BadBodyError)


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
    """A pool of connections to one Hub and its CDNs, with a deadline for all of them.

    The token goes to the origin of `endpoint` and nowhere else.
    """

    def __init__(
        self, endpoint: str, *, token: Token | None, timeout: float, connections: int
    ) -> None:
        self.endpoint = endpoint
        self.token = token
        self.timeout = timeout
        self._end = time.monotonic() + timeout
        self._origin = origin_of(endpoint)
        self._connections = connections
        self._adapters: dict[str, HTTPAdapter] = {}
        self._proxies: dict[tuple[str, str | None, int], dict[str, str]] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        for adapter in self._adapters.values():
            adapter.close()

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
            try:
                answer = self._follow(ask)
            except _BrokenError as broken:
                if attempt == _TRIES or not _may_pass(broken) or not self._wait(attempt, None):
                    raise _explain(broken, broken.host) from None
                continue
            if answer.status not in _RETRIED or attempt == _TRIES:
                return answer
            if not self._wait(attempt, retry_after(answer.headers)):
                return answer

    def _wait(self, attempt: int, asked: float | None) -> bool:
        """Sleep before another try; return False when there is no time for it."""
        longest = min(0.25 * 2**attempt, 4.0)
        seconds = random.uniform(longest / 4, longest) if asked is None else asked  # noqa: S311
        if seconds > min(_LONGEST_WAIT, self._end - time.monotonic()):
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
                    location = response.headers.get("Location")
                    if response.status_code not in _REDIRECTS or not location:
                        return self._read(response, ask, url, commit)
                    # a body that has been read leaves the connection free for the next request
                    self._take(response, _ERROR_BODY)
            except _BROKEN as error:
                raise _BrokenError(host_of(url)) from error
            url = next_hop(url, location, seen)

    def _send(self, url: str, ask: _Ask) -> requests.Response:
        headers = {"User-Agent": f"hfkv/{__version__}", "Accept-Encoding": "gzip"}
        if ask.stop is not None:
            headers["Range"] = f"bytes={ask.start}-{ask.stop - 1}"
            headers["Accept-Encoding"] = "identity"  # with gzip, the Hub ignores the range
        if self.token is not None and origin_of(url) == self._origin:
            headers["Authorization"] = f"Bearer {self.token.value}"
        left = self.left()
        # Below the library's session: that would read bodies of redirects to their end,
        # keep cookies, and send what ~/.netrc holds for the host.
        return self._adapter(url).send(
            requests.Request("GET", url, headers=headers).prepare(),
            stream=True,
            timeout=(min(_CONNECT, left), min(_READ, left)),
            proxies=self._proxies_for(url),
        )

    def _proxies_for(self, url: str) -> dict[str, str]:
        # reading the environment anew costs a tenth of a request
        origin = origin_of(url)
        if origin not in self._proxies:
            self._proxies[origin] = requests.utils.get_environ_proxies(url, no_proxy=None)
        return self._proxies[origin]

    def _adapter(self, url: str) -> HTTPAdapter:
        scheme = url.partition(":")[0]
        with self._lock:
            if scheme not in self._adapters:
                kind = _SharedTls if scheme == "https" else HTTPAdapter
                self._adapters[scheme] = kind(
                    pool_connections=_HOSTS, pool_maxsize=self._connections
                )
            return self._adapters[scheme]

    def _read(self, response: requests.Response, ask: _Ask, url: str, commit: str | None) -> Answer:
        status, total = response.status_code, None
        if ask.stop is not None and status == 206:
            length, total = promised(response.headers, ask.start, ask.stop)
            body, ended = self._take(response, length)
            if len(body) != length or not ended:
                raise BadBodyError(f"{len(body):,} bytes where {length:,} were promised")
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
        return Answer(
            status=status,
            body=body,
            url=url,
            headers=response.headers,
            commit=commit,
            total=total,
        )

    def _take(self, response: requests.Response, limit: int) -> tuple[bytes, bool]:
        return read_body(response.raw, response.headers, limit, self.left)


class _SharedTls(HTTPAdapter):
    """Share one TLS context: urllib3 would load the CA file for every connection."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        self._context = _tls_context()
        super().init_poolmanager(*args, ssl_context=self._context, **kwargs)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["ssl_context"] = self._context
        return super().proxy_manager_for(*args, **kwargs)

    def cert_verify(self, conn: Any, *_: Any, **__: Any) -> None:
        conn.cert_reqs = "CERT_REQUIRED"


def _tls_context() -> ssl.SSLContext:
    named = next(
        (
            os.environ[name]
            for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
            if os.environ.get(name)
        ),
        None,
    )
    path = named or requests.utils.DEFAULT_CA_BUNDLE_PATH
    try:
        if Path(path).is_dir():
            return ssl.create_default_context(capath=path)
        return ssl.create_default_context(cafile=path)
    except OSError:
        raise UsageError(
            f"the certificates in {path} cannot be read",
            hint="REQUESTS_CA_BUNDLE or SSL_CERT_FILE names a file in PEM format",
            code="certificates",
        ) from None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and everything that it wraps."""
    todo, seen = [error], set()
    while todo:
        error = todo.pop()
        if id(error) in seen:
            continue
        seen.add(id(error))
        yield error
        inner = (*error.args, getattr(error, "reason", None), error.__cause__, error.__context__)
        todo += [cause for cause in inner if isinstance(cause, BaseException)]


def _may_pass(error: BaseException) -> bool:
    """Return whether the same request may succeed when it is tried again."""
    lasting = (ssl.SSLCertVerificationError, requests.exceptions.InvalidURL)
    for cause in _causes(error):
        if isinstance(cause, lasting):
            return False
        if isinstance(cause, socket.gaierror):
            return cause.errno == socket.EAI_AGAIN
    return True


def _explain(error: BaseException, host: str) -> UnreadableError:
    """Return a sentence for a failure of the transport; the library's own text is not shown."""
    causes = list(_causes(error))

    def caused_by(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    if caused_by(requests.exceptions.ProxyError, urllib3.exceptions.ProxyError):
        return UnreadableError(
            f"the proxy does not lead to {host}",
            hint="check HTTPS_PROXY and NO_PROXY",
            code="proxy",
        )
    if caused_by(ssl.SSLCertVerificationError):
        return UnreadableError(
            f"the certificate of {host} cannot be verified",
            hint="behind a company proxy, set REQUESTS_CA_BUNDLE to its CA file",
            code="certificate",
        )
    if caused_by(ssl.SSLError):
        return UnreadableError(f"no secure connection to {host}", hint=_elsewhere(), code="tls")
    if caused_by(socket.gaierror):
        return UnreadableError(
            f"the name {host} cannot be resolved",
            hint=_elsewhere() or "check the network, or use --offline",
            code="dns",
        )
    if caused_by(ConnectionRefusedError):
        return UnreadableError(
            f"{host} refuses the connection", hint=_elsewhere(), code="connection"
        )
    unreachable = {errno.ENETUNREACH, errno.EHOSTUNREACH}
    if any(isinstance(cause, OSError) and cause.errno in unreachable for cause in causes):
        return UnreadableError(f"there is no way to {host}", hint=_elsewhere(), code="connection")
    if caused_by(requests.Timeout, urllib3.exceptions.TimeoutError, TimeoutError):
        return UnreadableError(f"{host} does not answer", hint=_elsewhere(), code="timeout")
    bad = next((cause for cause in causes if isinstance(cause, BadBodyError)), None)
    if bad is not None:
        return UnreadableError(f"{host} sends {bad}", hint=_elsewhere(), code="transfer")
    return UnreadableError(
        f"the connection to {host} breaks off", hint=_elsewhere(), code="connection"
    )


def _elsewhere() -> str | None:
    """Return a hint at the variables that decide where requests go, if any are set."""
    names = ("HF_ENDPOINT", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy")
    found = [name for name in names if os.environ.get(name)]
    return f"check {' and '.join(found)}, set in the environment" if found else None
