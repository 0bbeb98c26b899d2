"""Which models this machine has met, by the folders of its caches: names only, nothing is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hfkv.errors import UsageError
from hfkv.sources.cache import cache_root
from hfkv.sources.environment import cache_folder

__all__ = ["known_models", "local_names"]

_MODEL = "models--"


def known_models() -> list[str]:
    """Return the ids of models in hfkv's cache and in huggingface_hub's, sorted.

    A folder `models--org--name` is the model org/name. What cannot be listed has none.
    """
    folders = set()
    with suppress(OSError, UsageError):
        folders |= {place.name for place in cache_root().glob(f"v*/*/{_MODEL}*")}
    with suppress(OSError, RuntimeError):
        folders |= {place.name for place in cache_folder().glob(f"{_MODEL}*")}
    return sorted(name.removeprefix(_MODEL).replace("--", "/", 1) for name in folders)


def local_names() -> list[str]:
    """Return what in this folder may be a model: folders with a slash, and files, sorted."""
    with suppress(OSError):
        return sorted(_locals())
    return []


def _locals() -> Iterator[str]:
    for place in Path().iterdir():
        if place.name.startswith("."):
            continue
        if place.is_dir():
            yield f"{place.name}/"
        elif place.suffix in {".json", ".safetensors"}:
            yield place.name
