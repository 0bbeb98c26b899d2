"""What a check asks about the world around a model: its license, the disk, the cache."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from hfkv.core.checks import Surroundings, needed_files
from hfkv.core.files import ModelFiles
from hfkv.errors import HfkvError
from hfkv.sources.environment import cache_folder
from hfkv.sources.reading import read_object, read_small

__all__ = ["look_around"]

_LICENSE = re.compile(r"^license:[ \t]*[\"']?([A-Za-z0-9][A-Za-z0-9._-]{0,60})", re.MULTILINE)
_TEMPLATES = ("chat_template.jinja", "chat_template.json")


def look_around(files: ModelFiles) -> Surroundings:
    """Return what is known around a model that was read; never fails, asks no network."""
    folder = Path(files.target.id) if files.target.kind == "folder" else None
    cache = cache_folder()
    return Surroundings(
        license=_license(files, folder),
        chat_template=_chat_template(files, folder),
        cached_bytes=_cached(files, cache),
        free_bytes=_free(cache),
        cache_path=str(cache),
    )


def _license(files: ModelFiles, folder: Path | None) -> str | None:
    """Return the license as the Hub has it, or a folder's model card."""
    stated = files.hub.get("license")
    if isinstance(stated, str):
        return stated
    card = _text(folder, "README.md") if folder is not None else ""
    if not card.startswith("---"):
        return None
    front = card.split("\n---", 1)[0]
    found = _LICENSE.search(front)
    return found[1] if found else None


def _text(folder: Path, name: str) -> str:
    try:
        return read_small(folder / name, name).decode("utf-8", "replace")
    except HfkvError:
        return ""


def _chat_template(files: ModelFiles, folder: Path | None) -> bool | None:
    """Return whether there is a chat template, None where nobody has looked."""
    if any(file.path in _TEMPLATES for file in files.files):
        return True
    known = files.hub.get("chat_template")
    if isinstance(known, bool):
        return known
    if folder is None:
        return None
    try:
        return bool(read_object(folder / "tokenizer_config.json", "").get("chat_template"))
    except HfkvError:
        return None


def _cached(files: ModelFiles, cache: Path) -> int | None:
    """Return how many of the bytes to download huggingface_hub has already.

    Layout: `models--org--name/snapshots/COMMIT/` holds the files of a commit, `blobs/` their
    contents under the sha256 of the large ones.
    """
    repo = cache / f"models--{files.target.id.partition(':')[0].replace('/', '--')}"
    known = [repo / "snapshots" / files.target.sha] if files.target.sha else []
    total = 0
    for path, size, sha256 in needed_files(files):
        places = [folder / path for folder in known]
        places += [repo / "blobs" / sha256] if sha256 else []
        if any(_there(place, size) for place in places):
            total += size or 0
    return total


def _there(place: Path, size: int | None) -> bool:
    try:
        return place.stat().st_size == size
    except (OSError, ValueError):
        return False


def _free(cache: Path) -> int | None:
    """Return the free bytes of the disk that the cache is on, or would be made on."""
    place = Path(os.path.realpath(cache))
    try:
        while not place.exists() and place != place.parent:
            place = place.parent
        return shutil.disk_usage(place).free
    except OSError:
        return None
