"""What was read of models on the Hub, kept by commit: a commit never changes.

`FOLDER/v1/HUB/models--org--name/SHA[+deep][+file-…]` holds one ModelFiles, compressed, under a
line with the version of hfkv and a checksum; `refs/REVISION` beside it the commit that a
branch was at. Whatever is damaged or of another version counts as absent. Entries are
written in one step, so any number of processes may read and write at the same time.
"""

from __future__ import annotations

import os
import re
import threading
import time
import zlib
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from hfkv import __version__
from hfkv.core.files import ModelFiles
from hfkv.core.record import dataclass
from hfkv.core.snapshots import dumps, loads
from hfkv.errors import HfkvError, UsageError
from hfkv.sources.reading import read_or_none

__all__ = ["Cache", "Key", "Usage", "cache_root"]

_LAYOUT = "v1"
_SHA = r"[0-9a-f]{40}"
_ORIGIN = r"https?://[A-Za-z0-9.:\[\]-]{1,255}"
_HOSTS = 2
_MAX_ENTRY = 50_000_000
_MAX_INFLATED = 200_000_000
_STALE = 3600.0  # seconds after which what a killed process left half written is removed


def cache_root() -> Path:
    """Return the folder of the cache: HFKV_CACHE, else hfkv's own among the user's caches.

    A user who has no home (a container's) has no cache: nothing can be kept below the path
    returned. Raises UsageError for an HFKV_CACHE in the home of nobody.
    """
    named = os.environ.get("HFKV_CACHE", "").strip()
    if named:
        try:
            return Path(named).expanduser()
        except RuntimeError:
            raise UsageError(
                "HFKV_CACHE names the home of a user who is not known here",
                hint="name a folder without ~",
                code="cache",
            ) from None
    from platformdirs import user_cache_path  # noqa: PLC0415  where no folder is named

    try:
        return user_cache_path("hfkv", appauthor=False)
    except RuntimeError:
        return Path(os.devnull)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What was asked for, of which Hub: the commit comes with the answer."""

    endpoint: str
    repo: str
    revision: str
    file: str | None = None
    deep: bool = False

    @property
    def is_commit(self) -> bool:
        """Return whether the revision is a commit, which cannot move."""
        return re.fullmatch(_SHA, self.revision) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a cache holds: models at a commit, the bytes they take, and where."""

    folder: Path
    entries: int
    bytes: int


class Cache:
    """The entries below one folder; nothing here fails for what the disk refuses."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folder = root / _LAYOUT

    def latest(self, key: Key) -> ModelFiles | None:
        """Return what is known of the commit that the revision was last seen at."""
        sha = self.commit(key)
        return None if sha is None else self.find(key, sha)

    def find(self, key: Key, sha: str) -> ModelFiles | None:
        """Return what is known of a commit, None when it is nothing that can be trusted."""
        path, wanted = self._entry(key, sha), f":{key.file}" if key.file else ""
        raw = read_or_none(path, _MAX_ENTRY)
        if raw is None:
            return None
        files = _unpack(raw)
        if files is None or files.target.sha != sha or not files.target.id.endswith(wanted):
            with suppress(OSError):
                path.unlink()
            return None
        return replace(files, target=replace(files.target, revision=key.revision))

    def keep(self, key: Key, files: ModelFiles) -> None:
        """Keep what was read at its commit, and that the revision is at that commit."""
        sha = files.target.sha
        if sha is None or not re.fullmatch(_SHA, sha):
            return
        with suppress(OSError):
            self._write(self._entry(key, sha), _pack(files))
            _sweep(self._place(key))
        self.point(key, sha)

    def point(self, key: Key, sha: str) -> None:
        """Remember at which commit a revision is."""
        if self.commit(key) == sha:
            return
        with suppress(OSError):
            self._write(self._reference(key), f"{sha}\n".encode())

    def commit(self, key: Key) -> str | None:
        """Return the commit that a revision was at when it was last asked for."""
        if key.is_commit:
            return key.revision
        text = _text(self._reference(key)).strip()
        return text if re.fullmatch(_SHA, text) else None

    def hosts(self, key: Key) -> tuple[str, ...]:
        """Return where the Hub last sent those who read weights."""
        lines = _text(self._hosts(key)).split("\n")[:_HOSTS]
        return tuple(line for line in lines if re.fullmatch(_ORIGIN, line))

    def point_to_hosts(self, key: Key, hosts: Collection[str]) -> None:
        """Remember where the Hub sent those who read weights."""
        if hosts and set(self.hosts(key)) != set(hosts):
            with suppress(OSError):
                self._write(self._hosts(key), "\n".join(sorted(hosts)).encode("ascii", "replace"))

    def _hosts(self, key: Key) -> Path:
        return self._place(key).with_name("hosts")

    def usage(self) -> Usage:
        """Return what the cache holds."""
        sizes = [size for path, size in _files(self._folder) if re.match(_SHA, path.name)]
        return Usage(folder=self.root, entries=len(sizes), bytes=sum(sizes))

    def clear(self) -> Usage:
        """Remove every entry, and return what was removed; raises OSError when it cannot."""
        from shutil import rmtree  # noqa: PLC0415  nothing else here needs it

        before = self.usage()
        if self._folder.exists():
            rmtree(self._folder)
        return before

    def _write(self, path: Path, data: bytes) -> None:
        """Put `data` in the place of `path` in one step.

        It is not waited for until the disk has it: a checksum tells what got lost.
        """
        # readable by its owner alone: what was read may be private
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{os.getpid()}-{threading.get_ident()}")
        try:
            # what lies there already (a killed process of this number left it) is not written into
            beside.unlink(missing_ok=True)
            with beside.open("xb") as file:
                file.write(data)
            beside.replace(path)
        except BaseException:
            with suppress(OSError):
                beside.unlink()
            raise

    def _place(self, key: Key) -> Path:
        hub = quote(key.endpoint.partition("://")[2], safe="")
        return self._folder / hub / f"models--{key.repo.replace('/', '--')}"

    def _entry(self, key: Key, sha: str) -> Path:
        name = sha + ("+deep" if key.deep else "")
        if key.file is not None:
            name += f"+file-{zlib.crc32(key.file.encode()):08x}"
        return self._place(key) / name

    def _reference(self, key: Key) -> Path:
        return self._place(key) / "refs" / quote(key.revision, safe="")


def _text(path: Path) -> str:
    return (read_or_none(path) or b"").decode("ascii", "replace")


def _pack(files: ModelFiles) -> bytes:
    payload = zlib.compress(dumps(files).encode())
    return _first_line(payload) + payload


def _first_line(payload: bytes) -> bytes:
    return f"hfkv-cache {__version__} {len(payload)} {zlib.crc32(payload):08x}\n".encode()


def _unpack(raw: bytes) -> ModelFiles | None:
    line, _, payload = raw.partition(b"\n")
    if line + b"\n" != _first_line(payload):
        return None
    try:
        text = zlib.decompressobj().decompress(payload, _MAX_INFLATED)
        return loads(text, where="cache")
    except (zlib.error, HfkvError):
        return None


def _sweep(folder: Path) -> None:
    """Remove what processes that were killed have left half written."""
    before = time.time() - _STALE
    for path in folder.rglob(".*"):
        with suppress(OSError):
            if path.stat().st_mtime < before:
                path.unlink()


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    with suppress(OSError):  # a name that is too long to be looked for
        for path in folder.rglob("*"):
            with suppress(OSError):
                if path.is_file():
                    yield path, path.stat().st_size
