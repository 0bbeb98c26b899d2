"""The environment variables that the `hf` command knows, read the way it reads them."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

from hfkv.core.record import dataclass
from hfkv.errors import UnreadableError, UsageError

__all__ = [
    "Token",
    "cache_folder",
    "endpoint",
    "find_token",
    "is_offline",
    "one_request",
    "progress_forbidden",
]

DEFAULT_ENDPOINT = "https://huggingface.co"
_HOST = r"[^\s/\\%]*:[^\s/\\]*|([^\s:/\\%.]{1,63}\.)*[^\s:/\\%.]{1,63}\.?"  # IPv6, or labels
_SECRET = 8  # characters; what is shorter is a placeholder, and part of many words
_TRUE = {"1", "ON", "YES", "TRUE"}
_FALSE = {"0", "OFF", "NO", "FALSE"}


@dataclass(frozen=True, slots=True)
class Token:
    """A credential and where it came from; it is never part of a message."""

    value: str
    source: str

    def __repr__(self) -> str:
        return f"Token(from {self.source})"

    def taken_out(self, text: str) -> str:
        """Return what a server said without the token, which it may have said back."""
        return text.replace(self.value, "hf_…") if len(self.value) >= _SECRET else text


def endpoint() -> str:
    """Return the Hub to talk to, without a slash at its end; a mirror may have a path.

    Raises UsageError for an HF_ENDPOINT that is no http(s) address.
    """
    text = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or DEFAULT_ENDPOINT
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and parts.port != 0 and text.isprintable()
        usable = usable and re.fullmatch(_HOST, parts.hostname or "") is not None
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment or "@" in parts.netloc:
        raise UsageError(
            "HF_ENDPOINT is not the address of a Hub",
            hint="it looks like https://huggingface.co; unset it to use that one",
            code="endpoint",
        )
    return text


def is_offline() -> bool:
    """Return whether the environment forbids the network."""
    return _is_true(
        "HF_HUB_OFFLINE" if os.environ.get("HF_HUB_OFFLINE") else "TRANSFORMERS_OFFLINE"
    )


def progress_forbidden() -> bool:
    """Return whether the environment forbids progress, as it does for `hf`."""
    return _is_true("HF_HUB_DISABLE_PROGRESS_BARS")


def one_request() -> bool:
    """Return whether all headers may be asked for at once: HFKV_ONE_REQUEST=0 forbids it."""
    return os.environ.get("HFKV_ONE_REQUEST", "").strip().upper() not in _FALSE


def cache_folder() -> Path:
    """Return the folder where huggingface_hub keeps what it downloaded."""
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    return _path(named) if named else _home() / "hub"


def find_token(given: str | None = None) -> Token | None:
    """Return the token to use: the one given, else HF_TOKEN, else the stored login.

    huggingface_hub, which knows how to refresh stored logins, is imported only when there
    is one. Raises UsageError for a token that cannot be sent, UnreadableError where one that
    CI is to make cannot be had.
    """
    if given is not None:
        return _token(given, "--token")
    if _is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN"):
        return None
    if os.environ.get("HF_OIDC_RESOURCE"):
        return _exchanged()
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if os.environ.get(name, "").strip():
            return _token(os.environ[name], name)
    try:
        named = os.environ.get("HF_TOKEN_PATH")
        path = _path(named) if named else _home() / "token"
        if not path.is_file() and "google.colab" not in sys.modules:  # where it may be a secret
            return None
        from huggingface_hub import get_token  # noqa: PLC0415  240 ms, for a stored login only

        stored = get_token()
    except (OSError, RuntimeError, UnicodeDecodeError):
        return None  # a login that cannot be read is no login: public models need none
    return None if stored is None else _token(stored, str(path))


def _exchanged() -> Token | None:
    """Return the token of a trusted publisher: CI has one made for HF_OIDC_RESOURCE.

    It comes before all others. A huggingface_hub that does not know of it reads the others.
    """
    from huggingface_hub import get_token  # noqa: PLC0415  in CI only

    try:
        made = get_token()
    except Exception as error:  # noqa: BLE001  each version of huggingface_hub has its own
        raise UnreadableError(
            f"no token can be had for HF_OIDC_RESOURCE: {error}",
            hint="let the job request an id token, or unset HF_OIDC_RESOURCE",
            code="token",
        ) from None
    return None if made is None else _token(made, "HF_OIDC_RESOURCE")


def _token(text: str, source: str) -> Token | None:
    value = text.strip()
    if not value:
        return None
    if not (value.isascii() and value.isprintable() and " " not in value):
        raise UsageError(
            f"the token from {source} has characters that no token has",
            hint="a token looks like hf_… and is one line",
            code="token",
        )
    return Token(value, source)


def _home() -> Path:
    home = os.environ.get("HF_HOME")
    if home:
        return _path(home)
    return _path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"


def _path(text: str) -> Path:
    """Return a path that may begin with ~ and have variables in it."""
    return Path(os.path.expandvars(text)).expanduser()


def _is_true(name: str) -> bool:
    return os.environ.get(name, "").strip().upper() in _TRUE
