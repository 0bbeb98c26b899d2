"""Read the target that a command names, and say how that went to whoever wants to know."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from hfkv.cli.output import Chatter, note
from hfkv.cli.progress import Progress
from hfkv.core.counts import counted
from hfkv.core.files import ModelFiles
from hfkv.errors import HfkvError, MalformedError
from hfkv.render.units import size
from hfkv.sources import load

__all__ = ["listed_in", "read", "read_several"]

_SHOWN = 8  # headers named one by one by --verbose


def read(
    target: str,
    given: Mapping[str, Any],
    chatter: Chatter,
    *,
    meanwhile: Callable[[], object] | None = None,
) -> ModelFiles:
    """Return everything that is to be known of the target; the source options say how.

    `meanwhile` is called while a server is waited for, if one is.
    """
    started = time.perf_counter()
    with Progress() if chatter.progress else nullcontext() as progress:
        files = _load(target, given, progress=progress, meanwhile=meanwhile)
    if chatter.verbose:
        _say(files, time.perf_counter() - started)
    return files


def read_several(
    targets: Sequence[str], given: Mapping[str, Any], chatter: Chatter
) -> list[ModelFiles | HfkvError]:
    """Return everything that is to be known of each target, or why it could not be read."""
    from hfkv.sources.several import load_several  # noqa: PLC0415  not needed for one
    from hfkv.sources.shared import Shared  # noqa: PLC0415  the same

    started = time.perf_counter()
    with Progress() if chatter.progress else nullcontext() as progress, Shared() as shared:
        found = load_several(
            targets, lambda one: _load(one, given, shared=shared), progress=progress
        )
    if chatter.verbose:
        note(f"read {counted(len(targets), 'model')} in {time.perf_counter() - started:.3f} s")
    return found


def listed_in(path: str | None) -> Iterator[str]:
    """Yield the targets that a file lists, one a line; `-` is standard input."""
    if path is None:
        return
    from hfkv.sources.reading import read_small  # noqa: PLC0415  most are named directly

    raw = sys.stdin.buffer.read() if path == "-" else read_small(Path(path), path)
    try:
        lines = raw.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise MalformedError(f"not UTF-8 text (byte {error.start})", where=path) from None
    for line in lines:
        target = line.partition(" #")[0].strip()
        if target and not target.startswith("#"):
            yield target


def _load(target: str, given: Mapping[str, Any], **how: Any) -> ModelFiles:
    return load(
        target,
        revision=given.get("revision"),
        token=given["token"],
        offline=given["offline"],
        timeout=given["timeout"],
        config_path=given.get("config_path"),
        deep=given.get("deep", False),
        **how,
    )


def _say(files: ModelFiles, seconds: float) -> None:
    headers = files.headers
    read_bytes = sum(header.header_bytes for header in headers)
    note(f"read {files.target.id} in {seconds:.3f} s: {counted(len(files.files), 'file')} listed")
    for name in (files.config_name, *files.side) if files.config is not None else files.side:
        note(f"read {name}")
    for header in headers[:_SHOWN]:
        note(
            f"read the header of {header.path}: {size(header.header_bytes)},"
            f" {counted(header.tensors, 'tensor')} of {size(header.data_bytes)}"
        )
    if len(headers) > _SHOWN:
        note(f"and {counted(len(headers) - _SHOWN, 'more header')}, {size(read_bytes)} in all")
