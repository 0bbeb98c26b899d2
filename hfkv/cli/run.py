"""One command line from its arguments to its exit code; every failure is told here."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from errno import EIO, ENOSPC
from itertools import pairwise

import click

from hfkv.cli.group import COMPLETE, NAMES, Interrupted, group
from hfkv.errors import HfkvError

__all__ = ["run"]

_BUG = "this is a bug in hfkv"
_BUG_HINT = "please report it with the lines above and the command you ran"


def run(argv: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    if COMPLETE in os.environ:
        from hfkv.cli.asked import answer_shell  # noqa: PLC0415  for a completing shell only

        return answer_shell()
    try:
        code = group.main(list(argv), prog_name=_called_as(), standalone_mode=False)
    except click.ClickException as error:
        return _tell_click(error, argv)
    except HfkvError as error:
        from hfkv.cli.exits import exit_for_error  # noqa: PLC0415  not needed to show --help

        _tell(error.code, error.message, error.hint, argv)
        return exit_for_error(error)
    except (Interrupted, click.Abort):
        raise KeyboardInterrupt from None
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from None  # Ctrl-C while Python 3.11 was making a class
        if isinstance(error, OSError) and error.errno in (ENOSPC, EIO):
            raise  # stdout is a full disk, or a terminal that is gone: no bug
        import traceback  # noqa: PLC0415  not needed to show --help

        traceback.print_exc()
        _tell("bug", f"{_BUG}: {type(error).__name__}: {error}", _BUG_HINT, argv)
        return 70
    return int(code or 0)


def _called_as() -> str:
    """Return the name the program goes by: hf-kv where it was called that (by `hf kv` too)."""
    name = os.path.basename(sys.argv[0]).removesuffix(".exe")  # noqa: PTH119  pathlib takes 2 ms to load
    return name if name in NAMES else NAMES[0]


def _tell_click(error: click.ClickException, argv: Sequence[str]) -> int:
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = f"'{context.command_path} --help' lists what there is" if context else None
    _tell("usage", error.format_message(), hint, argv)
    return error.exit_code


def _tell(code: str, message: str, hint: str | None, argv: Sequence[str]) -> None:
    """Write a failure to stderr, and to stdout as a document where JSON was asked for."""
    from hfkv.render.units import clean  # noqa: PLC0415  not needed to show --help

    sys.stderr.write(f"hfkv: error: {clean(message, 2000)}\n")
    if hint:
        sys.stderr.write(f"hint: {clean(hint, 2000)}\n")
    if wants_json(argv):
        from hfkv.cli.output import write_stdout  # noqa: PLC0415
        from hfkv.render.documents import dumps, error_document  # noqa: PLC0415

        try:
            write_stdout(dumps(error_document(code, message, hint)))
        except HfkvError as error:  # the first failure decides the exit code
            sys.stderr.write(f"hfkv: error: {error.message}\n")


def wants_json(argv: Sequence[str]) -> bool:
    """Return whether the arguments ask for JSON; they may be too wrong for click to tell."""
    words = list(argv)
    if "--" in words:
        words = words[: words.index("--")]
    pairs = pairwise(words)
    return (
        "--json" in words
        or "-fjson" in words
        or "--format=json" in words
        or any(pair in {("-f", "json"), ("--format", "json")} for pair in pairs)
    )
