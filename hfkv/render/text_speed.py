"""How fast decoding cannot be, for a person who asked."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from hfkv.core.report import Report
from hfkv.render.phrases import gpu_phrase
from hfkv.render.sheet import quiet
from hfkv.render.speed import CAVEAT, ceiling_arithmetic, ceiling_phrase

__all__ = ["speed_section"]


def speed_section(report: Report) -> Iterator[RenderableType]:
    """Yield the bound on each GPU with its arithmetic."""
    if not report.fit:
        yield quiet("Add --gpu: the bound is the bandwidth of its memory.")
        return
    for fit in report.fit:
        yield Text(f"{gpu_phrase(fit)}: {ceiling_phrase(fit)}")
        if fit.speed is not None:
            yield quiet(ceiling_arithmetic(fit.speed))
    yield quiet(CAVEAT)
