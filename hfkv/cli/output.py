"""Where answers go: standard output or a file, whole or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from errno import EACCES, EDQUOT, ENOSPC, EPERM, EROFS
from pathlib import Path
from typing import Any

from hfkv.core.record import dataclass
from hfkv.core.written import source_tokens
from hfkv.errors import UsageError
from hfkv.render.style import Style
from hfkv.render.units import clean
from hfkv.sources.environment import progress_forbidden

__all__ = ["Chatter", "Output", "checked_path", "note", "problem", "told_apart", "write_stdout"]

_NARROWEST, _WIDEST = 40, 200
_USUAL = 80
_PROSE = 140  # columns beyond which sentences are no longer read with ease


@dataclass(frozen=True, slots=True, kw_only=True)
class Chatter:
    """What is said on stderr beside the answer."""

    quiet: bool
    verbose: bool
    progress: bool

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Chatter:
        """Return what the options say; progress is for a terminal only."""
        silent = given["quiet"] or given["no_progress"] or progress_forbidden()
        return cls(
            quiet=given["quiet"],
            verbose=given["verbose"] and not given["quiet"],
            progress=not silent and sys.stderr.isatty(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """In which form the answer goes where; `path` None is standard output."""

    format: str
    path: Path | None
    color: bool

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Output:
        """Return what the output options say.

        Raises UsageError when they contradict each other, or the folder is not there.
        """
        chosen = given["output_format"]
        if given["as_json"] and chosen not in (None, "json"):
            raise UsageError(f"--json and --format {chosen} contradict each other")
        path = checked_path(told_apart(given)[0])
        return cls(
            format="json" if given["as_json"] else chosen or "text",
            path=path,
            color=path is None and not given["no_color"] and _terminal_has_color(),
        )

    def write(self, text: str) -> None:
        """Write the answer; raises UsageError when there is no room or no right to."""
        if self.path is None:
            write_stdout(text, utf8=self.format != "text")
        else:
            _write_file(self.path, text)

    @property
    def style(self) -> Style:
        """Return what can be shown: the terminal's columns (80 where there is none)."""
        return self.style_up_to(_PROSE)

    def style_up_to(self, widest: int = _WIDEST) -> Style:
        """Return what can be shown, of a terminal's columns no more than `widest`."""
        return Style(
            width=max(_NARROWEST, min(widest, _terminal_columns())),
            color=self.color,
            unicode=self.path is not None or _is_utf8(sys.stdout.encoding),
        )


def told_apart(given: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """Return the file that --output names, and the tokens that it states beside --prompt.

    Both have that name: to write to a file called 1k, say ./1k. Raises UsageError for two
    files.
    """
    words = dict.fromkeys(given["output_path"])
    stated = {word: _tokens(word) for word in words if given.get("prompt") is not None}
    tokens = [number for number in stated.values() if number is not None]
    paths = [word for word in words if stated.get(word) is None]
    for found, what in ((paths, "files"), (tokens, "lengths")):
        if len(found) > 1:
            raise UsageError(f"--output names two {what}: {found[0]} and {found[1]}")
    return next(iter(paths), None), next(iter(tokens), None)


def _tokens(word: str) -> int | None:
    try:
        return source_tokens(word)
    except ValueError:
        return None


def note(text: str) -> None:
    """Write one line about the run to stderr."""
    sys.stderr.write(f"hfkv: {clean(text, 2000)}\n")


def problem(text: str, hint: str | None = None) -> None:
    """Write the lines that explain an exit code other than 0."""
    note(f"error: {text}")
    if hint is not None:
        sys.stderr.write(f"hint: {clean(hint, 2000)}\n")


def write_stdout(text: str, *, utf8: bool = True) -> None:
    """Write to standard output; a reader that has gone away (`| head`) is no failure.

    A lone surrogate of a foreign name is written as its JSON escape. Raises UsageError when
    the output is full.
    """
    encoding = "utf-8" if utf8 else sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode(encoding, "backslashreplace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        _forget_stdout()
    except OSError as error:
        _forget_stdout()
        raise UsageError(
            f"cannot write to standard output: {error.strerror}",
            hint=_way_out(error),
            code="output",
        ) from error


def _way_out(error: OSError) -> str:
    """Return what to do about an answer that cannot be written."""
    if error.errno in (ENOSPC, EDQUOT):
        return "free some space, or write elsewhere with --output FILE"
    if error.errno in (EACCES, EPERM, EROFS):
        return "choose a folder that you may write to"
    return "write elsewhere with --output FILE, or to standard output without it"


def _forget_stdout() -> None:
    """Point standard output at nothing, so that the interpreter's last flush cannot fail."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


def _terminal_columns() -> int:
    """Return how wide stdout is, 80 where nobody says; `shutil` takes 2 ms to say the same."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isascii() and stated.isdecimal() and int(stated[:9]):
        return int(stated[:9])
    with suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stdout.fileno()).columns or _USUAL
    return _USUAL


def _terminal_has_color() -> bool:
    dumb = os.environ.get("TERM") == "dumb" or bool(os.environ.get("NO_COLOR"))
    return sys.stdout.isatty() and not dumb


def _is_utf8(encoding: str | None) -> bool:
    return (encoding or "").lower().replace("-", "").replace("_", "") == "utf8"


def checked_path(path: str | None) -> Path | None:
    """Return the path, resolved, before anything is read: a typo must not cost a download."""
    if path is None or path == "-":
        return None
    try:
        resolved = Path(os.path.realpath(path))
        if resolved.is_dir():
            raise UsageError("this is a folder", where=path, hint="name a file", code="output")
        if not resolved.parent.is_dir():
            raise UsageError(
                "its folder does not exist",
                where=path,
                hint="create it first, or choose another",
                code="output",
            )
    except OSError as error:
        raise UsageError(
            f"cannot be written: {error.strerror}",
            where=path,
            hint=_way_out(error),
            code="output",
        ) from error
    return resolved


def _write_file(path: Path, text: str) -> None:
    """Replace the file in one step; a device or a pipe is written to as it is."""
    from hfkv.sources.writing import replace_file  # noqa: PLC0415  most answers go to stdout

    data = text.encode("utf-8", "backslashreplace")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            replace_file(path, data)
    except OSError as error:
        raise UsageError(
            f"cannot be written: {error.strerror}",
            where=str(path),
            hint=_way_out(error),
            code="output",
        ) from error
