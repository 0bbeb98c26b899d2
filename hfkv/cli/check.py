"""`hfkv check TARGET`: pre-download sanity, for CI and for humans."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from hfkv.cli import complete
from hfkv.cli.exits import Exit
from hfkv.cli.options import (
    SectionedCommand,
    chatter_options,
    option,
    output_options,
    source_options,
    together,
)
from hfkv.cli.output import Chatter, Output, problem, write_stdout
from hfkv.cli.reading import read
from hfkv.cli.request import workload_of
from hfkv.cli.workload_options import engine_options, gpu_options, work_options
from hfkv.core.checks import CHECKS, Case, Status, Surroundings, Verdicts, known_ids, run_checks
from hfkv.core.report import analyze
from hfkv.core.workload import Workload
from hfkv.errors import HfkvError, UsageError

__all__ = ["command"]

_EXAMPLES = """\
hfkv check org/name --gpu rtx4090 --context 32k --concurrency 4
hfkv check org/name@SHA --allow-license apache-2.0 --fail-on warn
hfkv check ./checkpoint -g 24gib --skip tokenizer -f junit -o checks.xml
"""
_WHICH = "What is checked"

_check_options = together(
    option(
        "--skip",
        multiple=True,
        metavar="ID",
        shell_complete=complete.check,
        section=_WHICH,
        help=f"A check that is not run; repeatable: {', '.join(CHECKS)}.",
    ),
    option(
        "--fail-on",
        type=click.Choice(["fail", "warn"]),
        default="fail",
        show_default=True,
        section=_WHICH,
        help="Exit with 1 for a failed check, or for a warning too.",
    ),
    option(
        "--allow-license",
        "allowed_licenses",
        multiple=True,
        metavar="ID",
        section=_WHICH,
        help="A license that is permitted, such as apache-2.0; repeatable.",
    ),
)


@click.command("check", cls=SectionedCommand, epilog=_EXAMPLES)
@click.argument("target", shell_complete=complete.target)
@_check_options
@source_options
@work_options
@engine_options
@gpu_options
@output_options("text", "json", "md", "csv", "junit")
@chatter_options
def command(target: str, **given: Any) -> int:
    """Check a model before it is downloaded: whole, safe, permitted, and will it fit.

    TARGET is written as for inspect. Exits with 1 when a check fails.
    """
    output = Output.of(given)
    workload, skip = workload_of(given), known_ids(given["skip"])
    case = _case(target, given, workload)
    answer = Verdicts(
        target=target,
        case=case,
        checks=run_checks(case, skip=skip),
        fail_on=Status(given["fail_on"]),
    )
    output.write(_told(answer, output))
    if output.format == "text" and os.environ.get("GITHUB_ACTIONS"):
        from hfkv.render.check import github_annotations  # noqa: PLC0415  for that one CI only

        write_stdout(github_annotations(answer))
    if answer.passed:
        return Exit.DONE
    problem(f"not passed: {', '.join(check.id for check in answer.failed)}")
    return Exit.FAILED


def _case(target: str, given: Mapping[str, Any], workload: Workload) -> Case:
    """Return what there is to check; a failure to read is a failed check, no end of the run."""
    allowed = given["allowed_licenses"]
    files = None
    try:
        files = read(target, given, Chatter.of(given))
        report = analyze(files, workload)
    except UsageError:
        raise
    except HfkvError as error:
        around = Surroundings()
        return Case(files=files, report=None, surroundings=around, error=error)
    from hfkv.sources.surroundings import look_around  # noqa: PLC0415  only of what was read

    return Case(
        files=files, report=report, surroundings=look_around(files), allowed_licenses=allowed
    )


def _told(answer: Verdicts, output: Output) -> str:
    """Return the checks in the format that was asked for; only that one is imported."""
    if output.format == "json":
        from hfkv.render.check import check_document  # noqa: PLC0415
        from hfkv.render.documents import dumps  # noqa: PLC0415

        return dumps(check_document(answer))
    if output.format == "junit":
        from hfkv.render.junit import check_junit  # noqa: PLC0415

        return check_junit(answer)
    if output.format in ("md", "csv"):
        from hfkv.render.check import check_csv, check_markdown  # noqa: PLC0415

        return check_csv(answer) if output.format == "csv" else check_markdown(answer)
    from hfkv.render.text_check import check_text  # noqa: PLC0415

    return check_text(answer, output.style)
