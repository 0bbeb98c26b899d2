"""The door: parse, call, render, exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

__all__ = ["main", "script"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    _open_streams()
    try:
        from hfkv.cli.run import run  # noqa: PLC0415  Ctrl-C may come while this is loading

        return run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        return _interrupted()
    except RuntimeError as error:
        # Python 3.11 wraps a Ctrl-C that comes while a class is being made
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        return _interrupted()
    except OSError as error:  # the terminal or the disk behind stdout is gone or full
        with suppress(OSError):
            sys.stderr.write(f"hfkv: error: the answer cannot be written: {error.strerror}\n")
            sys.stderr.write("hint: free some space, or write elsewhere with --output FILE\n")
        return 2


def _interrupted() -> int:
    sys.stderr.write("hfkv: interrupted\n")
    return 130


def _open_streams() -> None:
    """Give closed streams (`>&-`) somewhere to go: Python leaves None in their place."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115


def script() -> NoReturn:
    """Run as the command that it is, and leave at once.

    Taking the interpreter apart takes a tenth of a run, and would wait for a server whose
    answer is of no interest any more; what was written is all there is to save. Nearly all that
    is made stays until then, so looking for garbage after every 700 objects finds none.
    """
    gc.set_threshold(200_000)
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
