"""`hfkv inspect TARGET`: the main job."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from hfkv.cli import complete
from hfkv.cli.exits import exit_for_report
from hfkv.cli.options import (
    SectionedCommand,
    chatter_options,
    inspect_options,
    output_options,
    source_options,
)
from hfkv.cli.output import Chatter, Output, note, problem
from hfkv.cli.reading import read
from hfkv.cli.request import workload_of
from hfkv.cli.workload_options import engine_options, gpu_options, work_options
from hfkv.errors import UsageError

if TYPE_CHECKING:
    from hfkv.core.report import Report

__all__ = ["command"]

_EXAMPLES = """\
hfkv inspect Qwen/Qwen3-8B --gpu rtx4090 --context 32k
hfkv inspect ./checkpoint --gpu h100:4 --kv-dtype fp8 --concurrency 64
hfkv inspect org/name --seq-lens 1200,8k,32k --json
"""


@click.command("inspect", cls=SectionedCommand, epilog=_EXAMPLES)
@click.argument("target", shell_complete=complete.target)
@source_options
@work_options
@engine_options
@gpu_options
@inspect_options
@output_options("text", "json", "md", "csv", "html")
@chatter_options
def command(target: str, **given: Any) -> int:
    """Size one model: weights, KV cache, and whether it fits.

    TARGET is a Hub repo (org/name, org/name@REV, its URL), a checkpoint folder, a
    config.json, a safetensors file, or a snapshot (NAME.hfkv.json).
    """
    output, chatter = Output.of(given), Chatter.of(given)
    workload = workload_of(given)
    if given["fail_if_not_fit"] and not workload.deployment.gpus:
        raise UsageError("--fail-if-not-fit needs a --gpu to fit on")
    files = read(target, given, chatter, meanwhile=lambda: _get_ready(output.format))
    from hfkv.core.report import analyze  # noqa: PLC0415  loaded while the Hub is waited for

    started = time.perf_counter()
    report = analyze(files, workload)
    if chatter.verbose:
        note(f"thought for {time.perf_counter() - started:.3f} s")
    output.write(_told(report, output, explain=given["explain"], speed=given["speed"]))
    code, why = exit_for_report(report, must_fit=given["fail_if_not_fit"])
    if why is not None:
        problem(why, next((one.hint for one in report.findings if one.code == "gated"), None))
    return code


def _get_ready(form: str) -> None:
    """Load what turns files into an answer: a tenth of a second of work that nobody waits for.

    Threads that have an answer to read get their turn at once: they are what is waited for.
    """
    turn = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    import_module("hfkv.core.report")
    if form == "text":
        import_module("hfkv.render.text")
    sys.setswitchinterval(turn)


def _told(report: Report, output: Output, *, explain: bool, speed: bool) -> str:
    """Return the report in the format that was asked for; only that one is imported."""
    if output.format == "json":
        from hfkv.render.documents import dumps  # noqa: PLC0415
        from hfkv.render.json import inspect_document  # noqa: PLC0415

        return dumps(inspect_document(report))
    if output.format == "md":
        from hfkv.render.markdown import inspect_markdown  # noqa: PLC0415

        return inspect_markdown(report, explain=explain, speed=speed)
    if output.format == "csv":
        from hfkv.render.csv import inspect_csv  # noqa: PLC0415

        return inspect_csv(report)
    if output.format == "html":
        from hfkv.render.html import page_document, render_html  # noqa: PLC0415

        return render_html([page_document(report)], title=report.files.target.id)
    from hfkv.render.text import inspect_text  # noqa: PLC0415

    return inspect_text(report, output.style, explain=explain, speed=speed)
