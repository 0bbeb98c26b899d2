"""`hfkv cache info|clear`: what is kept of models on the Hub."""

from __future__ import annotations

from typing import Any

import click

from hfkv.cli.group import ManualGroup
from hfkv.cli.options import SectionedCommand, option
from hfkv.cli.output import write_stdout
from hfkv.errors import UsageError
from hfkv.render.units import clean, integer, size
from hfkv.sources.cache import Cache, Usage, cache_root
from hfkv.sources.reading import reason

__all__ = ["command"]

_EXAMPLES = """\
hfkv cache info
hfkv cache clear
HFKV_CACHE=/scratch/hfkv hfkv cache info --json
"""

_as_json = option("--json", "as_json", is_flag=True, section="How it is told", help="As JSON.")


@click.group("cache", cls=ManualGroup, epilog=_EXAMPLES)
def command() -> None:
    """Show or clear what is kept of models on the Hub.

    A model that was inspected is kept by its commit: headers, config and sizes, never weights
    and never a token. HFKV_CACHE names another folder for it.
    """


@command.command("info", cls=SectionedCommand, epilog="hfkv cache info --json")
@_as_json
def info(**given: Any) -> int:
    """Say where it is and how much it holds."""
    _tell("holds", Cache(cache_root()).usage(), **given)
    return 0


@command.command("clear", cls=SectionedCommand, epilog="hfkv cache clear")
@_as_json
def clear(**given: Any) -> int:
    """Remove all of it."""
    cache = Cache(cache_root())
    try:
        removed = cache.clear()
    except OSError as error:
        raise UsageError(
            f"the cache cannot be cleared: {reason(error)}", where=str(cache.root), code="output"
        ) from None
    _tell("held", removed, **given)
    return 0


def _tell(verb: str, usage: Usage, *, as_json: bool) -> None:
    if as_json:
        from hfkv.render.documents import dumps  # noqa: PLC0415

        document = {
            "schema": "hfkv.cache/1",
            "folder": str(usage.folder),
            "entries": usage.entries,
            "bytes": usage.bytes,
        }
        write_stdout(dumps(document))
        return
    models = "model" if usage.entries == 1 else "models"
    write_stdout(
        f"{clean(str(usage.folder))} {verb} {integer(usage.entries)} {models},"
        f" {size(usage.bytes)}\n"
    )
