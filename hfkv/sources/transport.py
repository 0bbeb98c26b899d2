"""The only module that knows the HTTP library: one GET, and what its failures mean."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import requests
import urllib3
import urllib3.exceptions
from requests.adapters import HTTPAdapter

from hfkv.errors import UnreadableError, UsageError
from hfkv.sources.bodies import BadBodyError
from hfkv.sources.wire import origin_of

__all__ = ["BROKEN", "Response", "Transport", "explain", "may_pass"]

_SOCKS = {"socks4", "socks4a", "socks5", "socks5h"}
_HOSTS = 8  # the Hub and its CDNs
Response = requests.Response
BROKEN = (requests.RequestException, urllib3.exceptions.HTTPError, OSError, BadBodyError)


class Transport:
    """Connections to any hosts, kept for the next request, for any number of threads."""

    def __init__(self, connections: int) -> None:
        self._connections = connections
        self._adapters: dict[str, _Adapter] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connections that are idle."""
        for adapter in self._adapters.values():
            adapter.close()

    def get(self, url: str, headers: dict[str, str], *, connect: float, read: float) -> Response:
        """Return the answer with its body unread; raises one of BROKEN."""
        # Below the library's session: that would read bodies of redirects to their end,
        # keep cookies, and send what ~/.netrc holds for the host.
        adapter = self._adapter(url)
        return adapter.send(
            _request(url, headers),
            stream=True,
            timeout=(connect, read),
            proxies=adapter.proxies_for(url),
        )

    def spares(self, url: str, count: int, *, timeout: float) -> list[Callable[[], None]]:
        """Return what opens so many connections that later requests to a host find ready.

        Nothing is sent and no failure is told: the request itself will meet it.
        """
        adapter = self._adapter(url)
        proxies = adapter.proxies_for(url)
        try:
            pool = adapter.get_connection_with_tls_context(
                _request(url, {}), verify=True, proxies=proxies
            )
        except BROKEN:
            return []
        if pool.proxy is not None:
            return []
        # all are taken before one is given back, or the next would be the same
        taken = [pool._get_conn() for _ in range(count)]  # noqa: SLF001  there is no public way
        return [partial(_open, pool, connection, timeout) for connection in taken]

    def _adapter(self, url: str) -> _Adapter:
        scheme = url.partition(":")[0]
        with self._lock:
            if scheme not in self._adapters:
                kind = _TlsAdapter if scheme == "https" else _Adapter
                self._adapters[scheme] = kind(self._connections)
            return self._adapters[scheme]


def _request(url: str, headers: dict[str, str]) -> requests.PreparedRequest:
    # Addresses are quoted already; to prepare a request in the usual way takes as long as to
    # send it.
    request = requests.PreparedRequest()
    request.method, request.url = "GET", url
    request.headers = requests.structures.CaseInsensitiveDict(headers)
    return request


def _open(pool: urllib3.HTTPConnectionPool, connection: Any, timeout: float) -> None:
    with suppress(*BROKEN):
        if getattr(connection, "sock", None) is None:
            connection.timeout = timeout
            connection.connect()
    pool._put_conn(connection)  # noqa: SLF001


class _Adapter(HTTPAdapter):
    """The library's way to a host, found once for each origin; answers as they arrive."""

    def __init__(self, connections: int) -> None:
        self._proxies: dict[tuple[str, str | None, int], dict[str, str]] = {}
        self._pools: dict[tuple[str, str | None, int], urllib3.HTTPConnectionPool] = {}
        super().__init__(pool_connections=_HOSTS, pool_maxsize=connections)

    def proxies_for(self, url: str) -> dict[str, str]:
        """Return the proxies that the environment names for an address.

        Raises UsageError for one that is no address, or of a kind that cannot be used.
        """
        origin = origin_of(url)
        if origin not in self._proxies:
            proxies = requests.utils.get_environ_proxies(url, no_proxy=None)
            proxy = requests.utils.select_proxy(url, proxies)
            if proxy:
                _check_proxy(proxy, origin[0])
            self._proxies[origin] = proxies
        return self._proxies[origin]

    def get_connection_with_tls_context(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> urllib3.HTTPConnectionPool:
        origin = origin_of(str(request.url))
        if origin not in self._pools:
            pool = super().get_connection_with_tls_context(request, *args, **kwargs)
            assert isinstance(pool, urllib3.HTTPConnectionPool)
            self._pools[origin] = pool
        return self._pools[origin]

    def request_url(self, request: requests.PreparedRequest, proxies: Any) -> str:
        return super().request_url(request, proxies) if proxies else _path(str(request.url))

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> Response:
        response = requests.Response()
        response.status_code, response.url, response.request = resp.status, str(req.url), req
        response.headers, response.raw = resp.headers, resp
        return response


def _check_proxy(proxy: str, scheme: str) -> None:
    """Raise UsageError for a proxy that cannot be one; what it holds may be a password."""
    written = proxy if "://" in proxy else f"http://{proxy}"
    name = f"{scheme.upper()}_PROXY (or ALL_PROXY)"
    try:
        usable = bool(urllib3.util.parse_url(written).host)
    except urllib3.exceptions.LocationParseError:
        usable = False
    if not usable:
        raise UsageError(
            f"{name} is not the address of a proxy",
            hint="it looks like http://proxy.example:3128",
            code="proxy",
        )
    kind = written.partition("://")[0].lower()
    if kind in {"http", "https"} or (kind in _SOCKS and find_spec("socks") is not None):
        return
    raise UsageError(
        f"{name} names a {kind[:20]} proxy, which cannot be used",
        hint="name an http proxy" + ("; or `pip install pysocks`" if kind in _SOCKS else ""),
        code="proxy",
    )


def _path(url: str) -> str:
    _, slash, path = url.partition("://")[2].partition("/")
    return slash + path or "/"


class _TlsAdapter(_Adapter):
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


def may_pass(error: BaseException) -> bool:
    """Return whether the same request may succeed when it is tried again."""
    lasting = (
        ssl.SSLCertVerificationError,
        urllib3.exceptions.LocationParseError,
        requests.exceptions.InvalidURL,
    )
    for cause in _causes(error):
        if isinstance(cause, lasting):
            return False
        if isinstance(cause, socket.gaierror):
            return cause.errno == socket.EAI_AGAIN
    return True


def explain(error: BaseException, host: str) -> UnreadableError:
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
