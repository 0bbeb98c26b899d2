"""`hfkv compare A B C …`: several models under one workload, a row a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from hfkv.cli import complete
from hfkv.cli.exits import Exit, exit_for_error
from hfkv.cli.options import (
    SectionedCommand,
    chatter_options,
    network_options,
    option,
    output_options,
    together,
)
from hfkv.cli.output import Chatter, Output, problem
from hfkv.cli.params import Written
from hfkv.cli.reading import listed_in, read_several
from hfkv.cli.request import workload_of
from hfkv.cli.workload_options import engine_options, gpu_options, work_options
from hfkv.core import written
from hfkv.core.comparison import SORTS, Comparison, compare_models
from hfkv.errors import UsageError
from hfkv.sources.targets import shown

__all__ = ["command"]

_EXAMPLES = """\
hfkv compare org/one org/two ./three --gpu a100-80 --context 32k
hfkv compare --from models.txt -g h100 -g rtx4090 --sort sequences -f md
hfkv compare --variants meta-llama/Llama-3.1-8B --limit 5 -g rtx4090
"""
_WHICH = "Which models"

_compare_options = together(
    option(
        "--from",
        "listed_in",
        metavar="FILE",
        shell_complete=complete.file,
        section=_WHICH,
        help="Also those that a file lists, one a line (# begins a remark, - is stdin).",
    ),
    option(
        "--variants",
        metavar="REPO",
        shell_complete=complete.repository,
        section=_WHICH,
        help="Also this model and what the Hub lists as quantized from it.",
    ),
    option(
        "--limit",
        type=Written("n", written.whole),
        default="10",
        show_default=True,
        section=_WHICH,
        help="At most so many of --variants, the most downloaded first.",
    ),
    option(
        "--sort",
        type=click.Choice(SORTS),
        section="How it is told",
        help="Best first. [default: as given]",
    ),
)


@click.command("compare", cls=SectionedCommand, epilog=_EXAMPLES)
@click.argument("targets", nargs=-1, shell_complete=complete.target)
@_compare_options
@network_options
@work_options
@engine_options
@gpu_options
@output_options("text", "json", "md", "csv", "html")
@chatter_options
def command(targets: tuple[str, ...], **given: Any) -> int:
    """Compare several models under one workload, a row a model.

    TARGETS are written as for inspect. A model that cannot be read keeps its row, with the
    reason; several GPUs are groups of columns.
    """
    output, chatter = Output.of(given), Chatter.of(given)
    workload = workload_of(given)
    wanted = [*targets, *listed_in(given["listed_in"]), *_variants(given)]
    if not wanted:
        raise UsageError(
            "there is nothing to compare", hint="name models, or give --from or --variants"
        )
    outcomes = read_several(wanted, given, chatter)
    names = [shown(target) for target in wanted]
    answer = compare_models(names, outcomes, workload, sort=given["sort"])
    output.write(_told(answer, output))
    return _exit(answer)


def _variants(given: Mapping[str, Any]) -> list[str]:
    if given["variants"] is None:
        return []
    from hfkv.sources.variants import variants  # noqa: PLC0415  no HTTP for what is local

    found = variants(
        given["variants"],
        limit=given["limit"],
        token=given["token"],
        offline=given["offline"],
        timeout=given["timeout"],
    )
    return [given["variants"], *found]


def _exit(answer: Comparison) -> Exit:
    """Return success when at least one model has a report, else the code of the first failure."""
    errors = [row.error for row in answer.rows if row.error is not None]
    if len(errors) < len(answer.rows):
        return Exit.DONE
    problem(f"none of them could be read; the first: {errors[0].message}")
    return exit_for_error(errors[0])


def _told(answer: Comparison, output: Output) -> str:
    """Return the comparison in the format that was asked for; only that one is imported."""
    if output.format == "json":
        from hfkv.render.compare import compare_document  # noqa: PLC0415
        from hfkv.render.documents import dumps  # noqa: PLC0415

        return dumps(compare_document(answer))
    if output.format in ("md", "csv"):
        from hfkv.render.compare import compare_csv, compare_markdown  # noqa: PLC0415

        return compare_csv(answer) if output.format == "csv" else compare_markdown(answer)
    if output.format == "html":
        from hfkv.render.compare import compare_html  # noqa: PLC0415

        return compare_html(answer)
    from hfkv.render.text_compare import compare_text  # noqa: PLC0415

    return compare_text(answer, output.style_up_to())
