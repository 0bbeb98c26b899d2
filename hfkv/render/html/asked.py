"""What holds for exactly what was asked: contexts, plans, commands, the bound on speed.

No control changes these parts; the script hides them while something else is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hfkv.core.report import Report
from hfkv.render.html.elements import Html, el, join, table
from hfkv.render.limits import engine_figures
from hfkv.render.phrases import gpu_phrase, plan_cells, plan_phrase
from hfkv.render.speed import CAVEAT, ceiling_arithmetic, ceiling_phrase
from hfkv.render.units import clean, integer, size, tokens

if TYPE_CHECKING:
    from hfkv.core.answers import ContextRow
    from hfkv.core.fit import FitReport
    from hfkv.core.plans import Plan

__all__ = ["asked_section"]


def asked_section(report: Report) -> Html | None:
    """Return the inside of the card, or None where there is nothing to say of any GPU."""
    parts = list(_parts(report))
    return join(*parts) if parts else None


def _parts(report: Report) -> Iterator[Html]:
    for fit in report.fit if len(report.fit) == 1 else ():
        if fit.kv_pool_bytes_per_gpu and fit.answers is not None:
            yield from _figures(report, fit)
            if len(fit.answers.contexts) > 1 and fit.kv_bytes_per_sequence_per_gpu:
                yield _contexts(fit.answers.contexts)
        if len(fit.plans) > 1:
            yield _plans(fit.plans)
            yield from _remarks(fit.plans)
        if fit.commands:
            yield el("p", "To start it", class_="quiet")
            lines = "\n".join(clean(line, 2000) for line in fit.commands)
            yield el(
                "pre", lines, tabindex=0, class_="paste", role="group", aria_label="To start it"
            )
    yield from _speed(report)


def _figures(report: Report, fit: FitReport) -> Iterator[Html]:
    """Yield what the engine itself will make of the room."""
    assert fit.answers is not None
    found = list(engine_figures(report.workload.engine, fit.answers))
    if found:
        yield el(
            "dl", *(child for name, said in found for child in (el("dt", name), el("dd", said)))
        )


def _contexts(rows: tuple[ContextRow, ...]) -> Html:
    heading = ("tokens of each", *(f">{tokens(row.tokens)}" for row in rows))
    shown: list[tuple[str, ...]] = [("sequences", *(integer(row.max_sequences) for row in rows))]
    if any(row.simple_formula_max_sequences is not None for row in rows):
        simple = (integer(row.by_simple_formula) for row in rows)
        shown.append(("by the simple formula", *simple))
    return table(heading, shown, "How many sequences of each length fit")


def _plans(plans: tuple[Plan, ...]) -> Html:
    spreads = any(plan.data_parallel_attention for plan in plans)
    more = (">with data-parallel attention",) if spreads else ()
    heading = ("plan", ">weights", ">a sequence", ">of it copied", ">sequences", *more, "advice")
    rows = (
        (
            *plan_cells(plan),
            *((_spread(plan),) if spreads else ()),
            _judged(plan),
        )
        for plan in plans
    )
    return table(heading, rows, "Ways to share the model between the GPUs, on each of them")


def _spread(plan: Plan) -> str:
    """Return the sequences that data-parallel attention would hold, and what it costs."""
    found = plan.data_parallel_attention
    if found is None:
        return ""
    extra = found.extra_weights_bytes_per_gpu
    return f"{integer(found.max_sequences)}{f' for {size(extra)}' if extra else ''}"


def _judged(plan: Plan) -> Html:
    if not plan.short_by_bytes:
        return join("★ take this" if plan.recommended else None)
    return join("★ " if plan.recommended else None, f"{size(plan.short_by_bytes)} short")


def _remarks(plans: tuple[Plan, ...]) -> Iterator[Html]:
    for plan in plans:
        if plan.recommended and plan.reason:
            yield el("p", f"★ {plan_phrase(plan)}: {clean(plan.reason)}.", class_="quiet")


def _speed(report: Report) -> Iterator[Html]:
    """Yield the bound on each GPU with its arithmetic, where there is any bound at all."""
    if all(fit.speed is None for fit in report.fit):
        return
    for fit in report.fit:
        yield el("p", f"{gpu_phrase(fit)}: {ceiling_phrase(fit)}.")
        if fit.speed is not None:
            said = ceiling_arithmetic(fit.speed)
            yield el("p", f"{said[0].upper()}{said[1:]}.", class_="quiet")
    yield el("p", CAVEAT, class_="quiet")
