"""The door: parse, call, render, exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

__all__ = ["main", "script"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    try:
        from hfkv.cli.run import run  # noqa: PLC0415  Ctrl-C may come while this is loading

        return run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        sys.stderr.write("hfkv: interrupted\n")
        return 130


def script() -> NoReturn:
    """Run as the command that it is, and leave at once.

    Taking the interpreter apart takes a tenth of a run, and would wait for a server whose
    answer is of no interest any more; what was written is all there is to save.
    """
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
