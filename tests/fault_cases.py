"""How each row of docs/faults.md is brought about: one entry a row."""

from __future__ import annotations

import errno
import gzip
import socket
import ssl
from dataclasses import dataclass, field
from typing import Any

import requests
import urllib3.exceptions
from hub_server import VALID, HubServer, Sparse, weights

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 128,
    "torch_dtype": "bfloat16",
}
HEADER = weights(("model.embed_tokens.weight", "U8", (200,), 200))
LONG = weights(("model.embed_tokens.weight", "U8", (200,), 200), pad=40_000)
FILES: dict[str, Any] = {"config.json": CONFIG, "model.safetensors": HEADER}


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is on the Hub, what goes wrong, and how it is asked for.

    `faults` are of the test server; `cause` is what the network library raises instead of
    asking anybody.
    """

    argv: tuple[str, ...] = ("org/one",)
    files: dict[str, Any] = field(default_factory=lambda: FILES)
    repo: dict[str, Any] = field(default_factory=dict)
    faults: tuple[dict[str, Any], ...] = ()
    cause: BaseException | None = None
    environment: dict[str, str] = field(default_factory=dict)
    prefix: str = ""
    before: str = ""  # what is done to the cache after a first, faultless look


def fault(match: str, kind: str, **settings: Any) -> dict[str, Any]:
    """Return one fault."""
    return {"match": match, "kind": kind, **settings}


def status(match: str, code: int, **settings: Any) -> dict[str, Any]:
    """Return a fault that answers with a status."""
    return fault(match, "status", status=code, **settings)


def nested(error: BaseException) -> requests.ConnectionError:
    """Return an error as the library raises it: wrapped, the real one inside."""
    pool = urllib3.exceptions.MaxRetryError(None, "/", error)  # type: ignore[arg-type]
    return requests.ConnectionError(pool)


ELSEWHERE = {"HF_ENDPOINT": "https://hub.test"}
ONE_SECOND = ("org/one", "--timeout", "1")
SAID = {"X-Error-Message": "too bad"}
FEW = {"config.json": CONFIG, "README.md": b"x"}
LISTED = {"rfilename": "model.safetensors", "size": 999}

NETWORK = {
    "dns": Case(cause=nested(socket.gaierror(socket.EAI_NONAME, "unknown")), environment=ELSEWHERE),
    "refused": Case(environment={"HF_ENDPOINT": "http://127.0.0.1:9"}),
    "unreachable": Case(cause=nested(OSError(errno.ENETUNREACH, "no")), environment=ELSEWHERE),
    "connect-timeout": Case(cause=requests.ConnectTimeout("slow"), environment=ELSEWHERE),
    "hang-once": Case(
        argv=("org/one", "--timeout", "3"), faults=(fault("/revision/", "hang", times=1),)
    ),
    "hang": Case(argv=ONE_SECOND, faults=(fault("", "hang"),)),
    "drip": Case(argv=ONE_SECOND, faults=(fault("/revision/", "drip"),)),
    "reset-once": Case(faults=(fault("/revision/", "reset", times=1),)),
    "reset": Case(faults=(fault("/revision/", "reset"),)),
    "short-once": Case(faults=(fault("safetensors", "short", side="cdn", times=1),)),
    "short": Case(faults=(fault("safetensors", "short", side="cdn"),)),
    "tls": Case(
        cause=requests.exceptions.SSLError(ssl.SSLError(1, "wrong version number")),
        environment=ELSEWHERE,
    ),
    "certificate": Case(
        cause=requests.exceptions.SSLError(ssl.SSLCertVerificationError(1, "self-signed")),
        environment=ELSEWHERE,
    ),
    "ca-file": Case(environment={**ELSEWHERE, "REQUESTS_CA_BUNDLE": "/nowhere/ca.pem"}),
    "proxy": Case(environment={**ELSEWHERE, "HTTPS_PROXY": "http://127.0.0.1:9"}),
    "proxy-address": Case(environment={**ELSEWHERE, "HTTPS_PROXY": "http://me:secret@"}),
    "ipv6": Case(environment={"HF_ENDPOINT": "IPV6"}),
    "mirror": Case(prefix="/mirrors/hf"),
    "endpoint": Case(environment={"HF_ENDPOINT": "hub.test"}),
}

REFUSALS = {
    "not-found": Case(argv=("org/none",)),
    "not-found-token": Case(argv=("org/none", "--token", VALID)),
    "revision": Case(argv=("org/one@v9",)),
    "file": Case(argv=("org/one:x.safetensors",)),
    "gated": Case(repo={"gated": "manual"}),
    "gated-bare": Case(repo={"gated": "manual"}, files=FEW),
    "disabled": Case(repo={"disabled": True}),
    "bad-token": Case(argv=("org/one", "--token", "hf_revoked")),
    "bad-token-private": Case(argv=("org/one", "--token", "hf_revoked"), repo={"private": True}),
    "forbidden": Case(faults=(status("/revision/", 403, headers=SAID),)),
    "bad-request": Case(faults=(status("/revision/", 400, headers=SAID),)),
    "renamed": Case(argv=("old",)),
    "limit-short": Case(
        faults=(status("/revision/", 429, headers={"RateLimit": '"api";r=0;t=0'}, times=1),)
    ),
    "limit-date": Case(
        faults=(
            status(
                "/revision/",
                429,
                headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"},
                times=1,
            ),
        )
    ),
    "limit-long": Case(faults=(status("/revision/", 429, headers={"Retry-After": "3600"}),)),
    "limit-bare": Case(faults=(status("/revision/", 429, times=2),)),
    "server-error-once": Case(faults=(status("config.json", 503, times=1),)),
    "server-error": Case(faults=(status("config.json", 503),)),
    "teapot": Case(faults=(status("/revision/", 418),)),
}

ANSWERS = {
    "page": Case(faults=(fault("/revision/", "html"),)),
    "page-weights": Case(faults=(fault("safetensors", "html", side="cdn"),)),
    "listing-cut": Case(faults=(status("/revision/", 200, body=b'{"id": "org/one", "si'),)),
    "listing-types": Case(repo={"info": {"siblings": [{"rfilename": "a", "size": -1}]}}),
    "listing-name": Case(repo={"info": {"siblings": [{"rfilename": "a\\b.safetensors"}]}}),
    "config-cut": Case(files={**FILES, "config.json": b'{"a": '}),
    "config-deep": Case(files={**FILES, "config.json": b'{"a": ' + b"[" * 100_000}),
    "config-large": Case(
        faults=(status("config.json", 200, body=b'{"a": "' + b"x" * 11_000_000 + b'"}'),)
    ),
    "bomb": Case(
        faults=(
            status(
                "config.json",
                200,
                body=gzip.compress(bytes(100_000_000), compresslevel=1),
                headers={"Content-Encoding": "gzip"},
            ),
        )
    ),
    "encoding": Case(
        faults=(status("/revision/", 200, body=b"x", headers={"Content-Encoding": "br"}),)
    ),
    "circle": Case(faults=(fault("/revision/", "loop"),)),
    "downgrade": Case(
        faults=(status("/revision/", 302, headers={"Location": "file:///etc/passwd"}),)
    ),
    "push": Case(
        repo={"commit": "a" * 40, "info": {"sha": "b" * 40}, "revisions": ("main", "b" * 40)}
    ),
    "one-request": Case(
        faults=(status("safetensors-metadata", 200, body=b'{"headers": {"x": {}}}'),)
    ),
}


def lie(length: int, size: int) -> dict[str, Any]:
    """Return a model whose header claims `length` bytes."""
    return {**FILES, "model.safetensors": Sparse(length.to_bytes(8, "little"), size)}


WEIGHTS = {
    "range-ignored": Case(faults=(fault("safetensors", "ignore_range", side="cdn"),)),
    "range-gzip": Case(faults=(fault("safetensors", "gzip", side="cdn"),)),
    "range-wrong-once": Case(faults=(fault("safetensors", "wrong_range", side="cdn", times=1),)),
    "range-wrong": Case(faults=(fault("safetensors", "wrong_range", side="cdn"),)),
    "range-empty": Case(
        faults=(
            status(
                "safetensors",
                206,
                side="cdn",
                headers={"Content-Range": f"bytes 0-{len(HEADER) - 1}/{len(HEADER)}"},
                times=1,
            ),
        )
    ),
    "signature": Case(
        files={**FILES, "model.safetensors": LONG},
        faults=(status("safetensors", 403, side="cdn", ranged="=32768-", times=1),),
    ),
    "cdn-refuses": Case(faults=(status("safetensors", 403, side="cdn"),)),
    "header-lie": Case(files=lie(2**63, 1_000_000)),
    "header-long": Case(files=lie(24_000_000, 40_000)),
    "header-huge": Case(files=lie(30_000_000, 900_000_000)),
    "header-empty": Case(files={**FILES, "model.safetensors": b""}),
    "upload-cut": Case(
        files={**FILES, "model.safetensors": LONG},
        faults=(status("safetensors", 416, side="cdn", ranged="=32768-"),),
    ),
    "size-differs": Case(repo={"info": {"siblings": [{"rfilename": "config.json"}, LISTED]}}),
    "index-name": Case(
        argv=("org/one", "--deep"),
        files={**FILES, "model.safetensors.index.json": {"weight_map": {"w": "../x.safetensors"}}},
    ),
}

CACHED = {
    "offline": Case(argv=("org/one", "--offline")),
    "offline-kept": Case(argv=("org/one", "--offline"), before="look"),
    "cache-damaged": Case(before="damage"),
    "cache-refused": Case(environment={"HFKV_CACHE": "/dev/null/x"}),
}

CASES = {**NETWORK, **REFUSALS, **ANSWERS, **WEIGHTS, **CACHED}


def set_up(case: Case, hub: HubServer) -> None:
    """Put the model on the Hub, with what goes wrong."""
    hub.prefix = case.prefix
    hub.add("org/one", case.files, **case.repo)
    hub.renamed["old"] = "org/one"
    for settings in case.faults:
        hub.fault(**settings)
