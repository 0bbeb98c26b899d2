"""The longer parts of a Markdown report: contexts, plans, commands, speed, paths of figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hfkv.core.engines.titles import engine_title
from hfkv.core.kv import KVReport
from hfkv.core.report import Report
from hfkv.render.evidence import figures
from hfkv.render.phrases import fullest_stage, gpu_phrase, plan_cells
from hfkv.render.rows import code, escape, markdown_table
from hfkv.render.speed import CAVEAT, ceiling_arithmetic, ceiling_phrase
from hfkv.render.units import clean, integer, size, tokens

if TYPE_CHECKING:
    from hfkv.core.answers import ContextRow
    from hfkv.core.fit import FitReport
    from hfkv.core.plans import Plan

__all__ = ["explained", "fit_blocks", "speed_block", "three_figures"]


def three_figures(kv: KVReport) -> str:
    """Return what the engine makes of a sequence on one GPU."""
    rank, stage = kv.per_gpu, fullest_stage(kv)
    return (
        f"A sequence on one GPU of {engine_title(kv.engine)}:"
        f" ideal {size(rank.ideal_bytes_per_sequence)},"
        f" admission {size(rank.admission_bytes_per_sequence)},"
        f" steady state {size(rank.steady_bytes_per_sequence)}."
        f"{f' {stage}' if stage else ''}"
    )


def fit_blocks(report: Report) -> Iterator[str]:
    """Yield what one GPU choice holds, how several share the model, and how it is started."""
    if report.kv is not None and report.kv.engine == "vllm":
        yield three_figures(report.kv)
    for fit in report.fit if len(report.fit) == 1 else ():
        rows = fit.answers.contexts if fit.answers is not None else ()
        if len({row.max_sequences for row in rows}) > 1:
            yield _contexts(rows)
        if len(fit.plans) > 1:
            yield _plans(fit.plans)
        if fit.ways_to_fit:
            yield _ways(fit)
        if fit.commands:
            yield "".join(("```sh\n", *(f"{clean(line, 2000)}\n" for line in fit.commands), "```"))


def _contexts(rows: tuple[ContextRow, ...]) -> str:
    heading = ("tokens of each", *(f">{tokens(row.tokens)}" for row in rows))
    return markdown_table(heading, [("sequences", *(integer(row.max_sequences) for row in rows))])


def _plans(plans: tuple[Plan, ...]) -> str:
    heading = ("ways to share", ">weights", ">a sequence", ">of it copied", ">sequences", "")
    rows = (
        (
            *plan_cells(plan),
            escape(f"recommended: {plan.reason}") if plan.recommended else "",
        )
        for plan in plans
    )
    return markdown_table(heading, rows)


def _ways(fit: FitReport) -> str:
    rows = (
        (
            code(way.change),
            size(way.frees_bytes),
            ("fits" if way.fits else "not enough") + (", estimated" if way.estimate else ""),
        )
        for way in fit.ways_to_fit
    )
    return markdown_table(("ways to fit", ">frees per GPU", ""), rows)


def speed_block(report: Report) -> str:
    """Return the bound on the speed of each GPU with its arithmetic."""
    lines = []
    for fit in report.fit:
        told = f"{gpu_phrase(fit)}: {ceiling_phrase(fit)}"
        if fit.speed is not None:
            told += f"; {ceiling_arithmetic(fit.speed)}"
        lines.append(f"- {escape(told)}\n")
    return f"{CAVEAT}\n\n{''.join(lines)}"


def explained(report: Report) -> Iterator[str]:
    """Yield every figure with its path and the tensor that confirms it."""
    rows = [
        (
            code(figure.name),
            code(str(figure.value)) if not isinstance(figure.value, int) else str(figure.value),
            escape(figure.path),
            code(figure.confirmed) if figure.confirmed else "",
        )
        for figure in figures(report)
        if not isinstance(figure.value, (dict, list))
    ]
    if rows:
        yield markdown_table(("figure", ">value", "path it took", "confirmed by"), rows)
    sentences = (*report.evidence.disagreements, *report.evidence.silent)
    if sentences:
        yield "".join(f"- {escape(sentence)}\n" for sentence in sentences)
