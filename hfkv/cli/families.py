"""`hfkv families [MODEL_TYPE]`: which architectures are known, and who says so."""

from __future__ import annotations

from typing import Any

import click

from hfkv.cli import complete
from hfkv.cli.options import SectionedCommand, output_options
from hfkv.cli.output import Output
from hfkv.core.families.catalogue import FamilyEntry, catalogue
from hfkv.errors import UsageError

__all__ = ["command"]

_EXAMPLES = """\
hfkv families
hfkv families gemma3_text
hfkv families --json
"""


@click.command("families", cls=SectionedCommand, epilog=_EXAMPLES)
@click.argument("model_type", required=False, shell_complete=complete.model_type)
@output_options("text", "json", "md", "csv")
def command(model_type: str | None, **given: Any) -> int:
    """List the model types that are known, with their kinds of layers.

    With a MODEL_TYPE, as in config.json, the one family that reads it.
    """
    output = Output.of(given)
    families = catalogue() if model_type is None else (_reading(model_type),)
    output.write(_told(families, output))
    return 0


def _reading(model_type: str) -> FamilyEntry:
    """Return the family that reads a model type."""
    for family in catalogue():
        if model_type in family.model_types:
            return family
    raise UsageError(
        f"no family reads the model type '{model_type}'",
        hint="inspect reads it as ordinary attention, and says so",
        code="family",
    )


def _told(families: tuple[FamilyEntry, ...], output: Output) -> str:
    if output.format == "json":
        from hfkv.render.documents import dumps  # noqa: PLC0415
        from hfkv.render.families import families_document  # noqa: PLC0415

        return dumps(families_document(families))
    if output.format in ("md", "csv"):
        from hfkv.render.families import families_csv, families_markdown  # noqa: PLC0415

        return families_csv(families) if output.format == "csv" else families_markdown(families)
    from hfkv.render.text_families import families_text  # noqa: PLC0415

    return families_text(families, output.style)
