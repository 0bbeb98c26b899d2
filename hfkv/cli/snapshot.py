"""`hfkv snapshot TARGET -o FILE`: what was read, to be replayed offline."""

from __future__ import annotations

from typing import Any

import click

from hfkv.cli import complete
from hfkv.cli.options import SectionedCommand, chatter_options, option, source_options
from hfkv.cli.output import Chatter, Output, checked_path
from hfkv.cli.reading import read
from hfkv.core.snapshots import dumps

__all__ = ["command"]

_EXAMPLES = """\
hfkv snapshot org/name -o name.hfkv.json
hfkv inspect name.hfkv.json --gpu a100-80
"""


@click.command("snapshot", cls=SectionedCommand, epilog=_EXAMPLES)
@click.argument("target", shell_complete=complete.target)
@source_options
@option(
    "-o",
    "--output",
    "output_path",
    required=True,
    metavar="FILE",
    shell_complete=complete.file,
    section="How it is told",
    help="Where to: NAME.hfkv.json, - for standard output.",
)
@chatter_options
def command(target: str, output_path: str, **given: Any) -> int:
    """Save what was read of a model, to replay it offline.

    The file holds the config, tensor names, shapes and sizes, and no weights: it is small, and
    `hfkv inspect` answers from it as from the model.
    """
    output = Output(format="json", path=checked_path(output_path), color=False)
    output.write(dumps(read(target, given, Chatter.of(given))))
    return 0
