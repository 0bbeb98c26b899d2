"""`hfkv gpus [NAME]`: what --gpu knows."""

from __future__ import annotations

from typing import Any

import click

from hfkv.cli import complete
from hfkv.cli.options import SectionedCommand, output_options
from hfkv.cli.output import Output
from hfkv.core.gpus import Gpu, find_gpu, table
from hfkv.errors import UsageError

__all__ = ["command"]

_EXAMPLES = """\
hfkv gpus
hfkv gpus a100-80
hfkv gpus rtx
hfkv gpus --json
"""


@click.command("gpus", cls=SectionedCommand, epilog=_EXAMPLES)
@click.argument("name", required=False, shell_complete=complete.gpu)
@output_options("text", "json", "md", "csv")
def command(name: str | None, **given: Any) -> int:
    """List the GPUs that --gpu knows, with their memories.

    With a NAME, that GPU alone, and where each of its figures comes from; with a part of
    several names, those.
    """
    output = Output.of(given)
    found = table() if name is None else _named(name)
    output.write(_told(found, output, one=len(found) == 1))
    return 0


def _named(name: str) -> tuple[Gpu, ...]:
    """Return the GPU of that name, else those that have it in their names."""
    try:
        return (find_gpu(name),)
    except UsageError:
        part = name.strip().lower()
        found = tuple(gpu for gpu in table() if part in f"{gpu.slug} {gpu.name}".lower())
        if not part or not found:
            raise
        return found


def _told(gpus: tuple[Gpu, ...], output: Output, *, one: bool) -> str:
    if output.format == "json":
        from hfkv.render.documents import dumps  # noqa: PLC0415
        from hfkv.render.gpus import gpus_document  # noqa: PLC0415

        return dumps(gpus_document(gpus))
    if output.format in ("md", "csv"):
        from hfkv.render.gpus import gpus_csv, gpus_markdown  # noqa: PLC0415

        return gpus_csv(gpus) if output.format == "csv" else gpus_markdown(gpus)
    from hfkv.render.text_gpus import gpu_text, gpus_text  # noqa: PLC0415

    return gpu_text(gpus[0], output.style) if one else gpus_text(gpus, output.style)
