"""The door: parse, call, render, exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    try:
        from hfkv.cli.run import run  # noqa: PLC0415  Ctrl-C may come while this is loading

        return run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        sys.stderr.write("hfkv: interrupted\n")
        return 130
