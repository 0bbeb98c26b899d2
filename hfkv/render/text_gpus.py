"""The GPU table, or one GPU, for a person at a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from hfkv.core.gpus import Gpu, usable_memory
from hfkv.render.gpus import GPU_HEADING, gpu_row
from hfkv.render.sheet import Sheet, quiet, table
from hfkv.render.style import Style
from hfkv.render.tables import draw
from hfkv.render.units import bandwidth, count, gigabytes, integer, size_or_none

__all__ = ["gpu_text", "gpus_text"]

_KNOWN_FROM = {
    "log": "read in published logs",
    "ds": "from the vendor's data sheet",
    "sec": "from a secondary table",
    "calc": "derived",
    "recall": "not read again: weak",
}


def gpus_text(gpus: Sequence[Gpu], style: Style) -> str:
    """Return all GPUs as a table."""
    grid = table(*GPU_HEADING)
    for gpu in gpus:
        slug, *rest = gpu_row(gpu)
        grid.add_row(Text(slug, style="bold"), *rest)
    legend = quiet("driver: total memory it lists; usable: total a framework has seen")
    return draw(iter((grid, "", legend)), style)


def gpu_text(gpu: Gpu, style: Style) -> str:
    """Return one GPU with the source of each figure."""
    return draw(_blocks(gpu), style)


def _blocks(gpu: Gpu) -> Iterator[RenderableType]:
    usable, source = usable_memory(gpu)
    yield Text(gpu.slug, style="bold").append(f"  {gpu.name}", style="not bold")
    yield ""
    yield Text(f"An engine can count on {integer(usable)} B ({size_or_none(usable)}, {source}).")
    yield ""
    yield _figures(gpu)
    if gpu.notes:
        yield quiet(gpu.notes)
    if gpu.aliases:
        yield quiet(f"also written {', '.join(gpu.aliases)}")
    if gpu.references:
        yield quiet(f"sources: {'; '.join(gpu.references)}")


def _figures(gpu: Gpu) -> Sheet:
    grid = table("figure", ">", "")
    rows = (
        ("sold as", gigabytes(gpu.memory_bytes), "memory"),
        ("driver says", size_or_none(gpu.driver_bytes), "memory"),
        ("usable", size_or_none(gpu.framework_bytes), "framework"),
        ("bandwidth", bandwidth(gpu.bandwidth_bytes_per_s), "bandwidth"),
        ("bf16, dense", _flops(gpu.bf16_flops), "flops"),
        ("fp8, dense", _flops(gpu.fp8_flops), "flops"),
    )
    for name, value, source in rows:
        grid.add_row(name, value, quiet(_KNOWN_FROM.get(gpu.sources.get(source, ""), "")))
    return grid


def _flops(value: int | None) -> str:
    return integer(None) if value is None else f"{count(value)}FLOP/s"
