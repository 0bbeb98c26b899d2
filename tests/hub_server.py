"""A small Hub on this machine, for tests: one port is the Hub, another its CDN.

It answers as the Hub does: `/api/models/{id}/revision/{rev}` with sizes, `/resolve/` with 307
to `/api/resolve-cache/` for small files and 302 to a signed address on the CDN for weights,
`X-Repo-Commit`, `X-Linked-Size`, `X-Error-Code`, 401/403/404. It keeps every request with its
headers and how much of the body was sent, and can be told to misbehave.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import re
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from hub_faults import INSTEAD, Fault

VALID = "hf_valid"  # a token the server knows, without access to gated repositories
GRANTED = "hf_granted"  # one with access to everything
FINE_GRAINED = "hf_fine"  # one whose settings exclude gated repositories
_CHUNK = 65_536


@dataclass(frozen=True)
class Sparse:
    """A file of `size` bytes that begins with `first`; the rest are zeros."""

    first: bytes
    size: int

    def __len__(self) -> int:
        return self.size

    def part(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` to `stop`."""
        head = self.first[start:stop]
        return head + bytes(max(0, min(stop, self.size) - start - len(head)))


def weights(*shapes: tuple[str, str, tuple[int, ...], int], pad: int = 0) -> Sparse:
    """Return a safetensors file of (name, dtype, shape, bytes), its header `pad` longer."""
    header: dict[str, Any] = {}
    end = 0
    for name, dtype, shape, size in shapes:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    raw = json.dumps(header).encode() + b" " * pad
    return Sparse(len(raw).to_bytes(8, "little") + raw, 8 + len(raw) + end)


@dataclass
class Repo:
    """One repository; `info` is merged over the model info that is made from the files."""

    files: dict[str, bytes | Sparse]
    gated: str | bool = False
    private: bool = False
    disabled: bool = False
    bundles: bool = True  # whether the one-request endpoint knows it
    revisions: tuple[str, ...] = ("main",)
    info: dict[str, Any] = field(default_factory=dict)
    commit: str = ""

    @property
    def sha(self) -> str:
        """Return a commit that depends on the names of the files, unless one was set."""
        return self.commit or hashlib.sha256("".join(sorted(self.files)).encode()).hexdigest()[:40]


@dataclass(frozen=True)
class Seen:
    """One request: on which port, what was asked, and what was answered."""

    side: str
    path: str
    headers: Mapping[str, str]
    status: int
    sent: list[int]

    @property
    def token(self) -> str | None:
        """Return the Authorization header."""
        return self.headers.get("authorization")


class HubServer:
    """Both ports, the repositories, the log, and the faults."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.repos: dict[str, Repo] = {}
        self.renamed: dict[str, str] = {}
        self.seen: list[Seen] = []
        self.faults: list[Fault] = []
        self.prefix = ""
        self.page = 100
        self.connections = 0
        self._servers = {side: self._serve(side) for side in ("hub", "cdn")}

    def listen_on_ipv6(self) -> ThreadingHTTPServer:
        """Serve the Hub on ::1 as well; raises OSError where there is no IPv6."""
        kind = type("Six", (ThreadingHTTPServer,), {"address_family": socket.AF_INET6})
        return self._serve("hub", kind, "::1")

    def settle(self) -> None:
        """Wait until those requests that nobody waits for any more have arrived too."""
        known = -1
        while known != len(self.seen):
            known = len(self.seen)
            time.sleep(0.05)

    def forget(self) -> None:
        """Forget all requests, also those that are under way."""
        self.settle()
        self.seen.clear()

    def _serve(
        self,
        side: str,
        kind: type[ThreadingHTTPServer] = ThreadingHTTPServer,
        address: str = "127.0.0.1",
    ) -> ThreadingHTTPServer:
        handler = type("Handler", (_Handler,), {"hub": self, "side": side})
        server = kind((address, 0), handler)
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server

    def close(self) -> None:
        """Stop serving as soon as the threads notice; no test waits for that."""
        for server in self._servers.values():
            threading.Thread(target=_end, args=(server,), daemon=True).start()

    @property
    def endpoint(self) -> str:
        """Return what HF_ENDPOINT should be."""
        return f"{self.base('hub')}{self.prefix}"

    def base(self, side: str) -> str:
        """Return the address of one of the two ports."""
        return f"http://127.0.0.1:{self._servers[side].server_port}"

    def add(self, name: str, files: Mapping[str, bytes | Sparse | Any], **settings: Any) -> Repo:
        """Add a repository; a file that is not bytes is written as JSON."""
        made = {
            path: data if isinstance(data, (bytes, Sparse)) else json.dumps(data).encode()
            for path, data in files.items()
        }
        self.repos[name] = Repo(files=made, **settings)
        return self.repos[name]

    def fault(self, match: str, kind: str, **settings: Any) -> None:
        """Misbehave from now on."""
        self.faults.append(Fault(match=match, kind=kind, **settings))

    def fault_for(self, side: str, path: str, ranged: str) -> Fault | None:
        """Return the fault that applies to a request, and count it."""
        with self._lock:
            for fault in self.faults:
                if not re.search(fault.match, path) or not re.search(fault.ranged, ranged):
                    continue
                if fault.side in {side, "any"} and fault.times:
                    fault.met += 1
                    if fault.met % fault.every == 0:
                        fault.times -= 1
                        return fault
        return None

    def paths(self, side: str = "hub") -> list[str]:
        """Return what was asked of one port, without queries, in order."""
        return [seen.path.partition("?")[0] for seen in self.seen if seen.side == side]


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer
    side: str
    protocol_version = "HTTP/1.1"
    timeout = 20
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.hub.connections += 1

    def finish(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # a connection that a fault has reset
            super().finish()

    def log_message(self, *_: Any) -> None:
        """Keep the test output clean."""

    def do_GET(self) -> None:
        """Answer, rightly or as a fault says."""
        self.entry: Seen | None = None
        fault = self.hub.fault_for(self.side, self.path, self.headers.get("Range", ""))
        with contextlib.suppress(ConnectionError, TimeoutError):
            if fault is not None and fault.kind in INSTEAD:
                INSTEAD[fault.kind](self, fault)
                return
            if self.side == "cdn":
                self._cdn(fault)
            else:
                self._hub(fault)

    # --- the Hub -------------------------------------------------------------------------

    def _hub(self, fault: Fault | None) -> None:
        path = unquote(urlsplit(self.path).path).removeprefix(self.hub.prefix)
        raw = urlsplit(self.path).path.removeprefix(self.hub.prefix)
        if match := re.fullmatch(r"/api/resolve-cache/models/(.+?)/([0-9a-f]{40})/(.+)", path):
            repo = self.hub.repos[match[1]]
            commit = {"X-Repo-Commit": repo.sha}
            return self._send_file(repo.files[match[3]], 200, commit, fault)
        if match := re.fullmatch(r"/api/models/(.+?)/revision/([^/]+)", raw):
            return self._info(match[1], unquote(match[2]))
        if path == "/api/whoami-v2":
            return self._whoami()
        if path == "/api/models":
            return self._list(parse_qs(urlsplit(self.path).query))
        if match := re.fullmatch(r"/api/models/(.+?)/safetensors-metadata/(.+)", path):
            return self._bundle(match[1], match[2], fault)
        if match := re.fullmatch(r"/(.+?)/resolve/([^/]+)/(.+)", raw):
            return self._resolve(match[1], unquote(match[2]), unquote(match[3]))
        return self._error(404, "", "Sorry, we can't find the page you are looking for.")

    def _whoami(self) -> None:
        """Answer as `hf auth login` needs it."""
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token not in {VALID, GRANTED, FINE_GRAINED}:
            return self._error(401, "", "Invalid username or password.")
        access = {"type": "access_token", "accessToken": {"displayName": "test", "role": "read"}}
        me = {"type": "user", "name": "me", "fullname": "Me", "orgs": [], "auth": access}
        return self.send(200, json.dumps(me).encode(), {})

    def _allowed(self, name: str, revision: str) -> Repo | None:
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        repo = self.hub.repos.get(name)
        if token and token not in {VALID, GRANTED, FINE_GRAINED}:
            self._error(401, "", "Invalid credentials in Authorization header")
        elif repo is None or (repo.private and token != GRANTED):
            if token:
                self._error(404, "RepoNotFound", "Repository not found")
            else:
                self._error(401, "", "Invalid username or password.")
        elif repo.disabled:
            self._error(403, "", "Access to this resource is disabled.")
        elif revision not in {*repo.revisions, repo.sha}:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        else:
            return repo
        return None

    def _info(self, name: str, revision: str) -> None:
        if name in self.hub.renamed:
            there = f"/api/models/{self.hub.renamed[name]}/revision/{revision}?blobs=true"
            return self.send(307, b"", {"Location": self.hub.prefix + there})
        repo = self._allowed(name, revision)
        if repo is None:
            return None
        siblings = []
        for path, data in repo.files.items():
            sibling: dict[str, Any] = {"rfilename": path, "size": len(data), "blobId": "0" * 40}
            if _is_large(path, data):
                sibling["lfs"] = {"sha256": "ab" * 32, "size": len(data), "pointerSize": 134}
            siblings.append(sibling)
        info = {"id": name, "sha": repo.sha, "gated": repo.gated, "private": repo.private}
        body = json.dumps({**info, "siblings": siblings, **repo.info}).encode()
        return self.send(200, body, {"Content-Type": "application/json; charset=utf-8"})

    def _resolve(self, name: str, revision: str, path: str) -> None:
        name = self.hub.renamed.get(name, name)
        repo = self._allowed(name, revision)
        if repo is None:
            return None
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if repo.gated and token != GRANTED:
            if token == FINE_GRAINED:
                return self._error(
                    403,
                    "",
                    "Please enable access to public gated repositories in your fine-grained "
                    "token settings to view this repository.",
                )
            status = 403 if token else 401
            return self._error(status, "GatedRepo", f"Access to model {name} is restricted.")
        data = repo.files.get(path)
        commit = {"X-Repo-Commit": repo.sha}
        if data is None:
            return self._error(404, "EntryNotFound", "Entry not found", commit)
        if not _is_large(path, data):
            there = f"{self.hub.prefix}/api/resolve-cache/models/{name}/{repo.sha}/{path}"
            return self.send(307, b"Temporary Redirect", {**commit, "Location": there})
        address = f"{self.hub.base('cdn')}/{name}/{path}?X-Signature=s3cret&rev={repo.sha}"
        headers = {**commit, "Location": address, "X-Linked-Size": str(len(data))}
        return self.send(302, f"Found. Redirecting to {address}".encode(), headers)

    def _list(self, query: dict[str, list[str]]) -> None:
        author, start = query.get("author", [""])[0], int(query.get("cursor", ["0"])[0])
        tags = set(query.get("filter", []))
        names = [
            name
            for name, repo in self.hub.repos.items()
            if name.startswith(author and f"{author}/") and tags <= set(repo.info.get("tags", tags))
        ]
        page = [{"id": name} for name in names[start : start + self.hub.page]]
        start += len(page)
        there = f"{self.hub.endpoint}/api/models?author={author}&cursor={start}"
        link = {"Link": f'<{there}>; rel="next"'} if start < len(names) else {}
        self.send(200, json.dumps(page).encode(), link)

    def _bundle(self, name: str, index: str, fault: Fault | None) -> None:
        """Answer with the headers of all files that an index of the main branch names."""
        repo = self._allowed(name, "main")
        if repo is None:
            return None
        data = repo.files.get(index)
        if not isinstance(data, bytes) or not repo.bundles or repo.gated:
            return self._error(404, "EntryNotFound", "Entry Not Found")
        headers = {}
        for file in dict.fromkeys(json.loads(data)["weight_map"].values()):
            shard = repo.files.get(file)
            if isinstance(shard, Sparse):
                length = int.from_bytes(shard.first[:8], "little")
                headers[file] = json.loads(shard.first[8 : 8 + length])
        body = json.dumps({"index": {"metadata": {}}, "headers": headers}).encode()
        return self._send_file(body, 200, {"X-Repo-Commit": repo.sha}, fault)

    # --- the CDN -------------------------------------------------------------------------

    def _cdn(self, fault: Fault | None) -> None:
        parts = urlsplit(self.path)
        owner, name, path = unquote(parts.path).removeprefix("/").split("/", 2)
        if parse_qs(parts.query).get("X-Signature") != ["s3cret"]:
            return self.send(403, b"<Error>SignatureDoesNotMatch</Error>", {})
        return self._send_file(self.hub.repos[f"{owner}/{name}"].files[path], 206, {}, fault)

    def _send_file(
        self, data: bytes | Sparse, ranged: int, headers: dict[str, str], fault: Fault | None
    ) -> None:
        sparse = data if isinstance(data, Sparse) else Sparse(data, len(data))
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        gzipped = "gzip" in self.headers.get("Accept-Encoding", "")
        kind = fault.kind if fault else ""
        if asked and ranged == 206 and kind not in {"ignore_range", "gzip"}:
            start, stop = int(asked[1]), min(int(asked[2]) + 1, len(data))
            if start >= len(data):
                return self.send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            if kind == "wrong_range":
                start, stop = start + 3, stop + 3
            if kind != "no_range_header":
                headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
            return self.send(206, sparse.part(start, stop), headers)
        if (gzipped and len(data) < 10_000_000) or kind == "gzip":
            headers["Content-Encoding"] = "gzip"
            return self.send(200, gzip.compress(sparse.part(0, len(data))), headers)
        self.begin(200, len(data), headers)
        for start in range(0, len(data), _CHUNK):
            self.write(sparse.part(start, start + _CHUNK))
        return None

    # --- answers -------------------------------------------------------------------------

    def begin(self, status: int, length: int, headers: Mapping[str, str]) -> None:
        """Send the head of an answer and log the request."""
        lower = {key.lower(): value for key, value in self.headers.items()}
        self.entry = Seen(self.side, self.path, lower, status, [])
        self.hub.seen.append(self.entry)
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def write(self, data: bytes) -> None:
        """Send some of the body and log how much."""
        if self.entry is not None:  # before the client can know that all of it has arrived
            self.entry.sent.append(len(data))
        self.wfile.write(data)

    def send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a whole answer."""
        self.begin(status, len(body), headers)
        self.write(body)

    def _error(
        self, status: int, code: str, message: str, more: Mapping[str, str] | None = None
    ) -> None:
        headers = {"X-Error-Message": message, **(more or {})}
        if code:
            headers["X-Error-Code"] = code
        self.send(status, json.dumps({"error": message}).encode(), headers)


def _is_large(path: str, data: bytes | Sparse) -> bool:
    return path.endswith((".safetensors", ".bin", ".gguf")) or len(data) > 10_000_000


def _end(server: ThreadingHTTPServer) -> None:
    server.shutdown()
    server.server_close()
