"""The GPU table as a document, as Markdown and as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hfkv.core.gpus import Gpu
from hfkv.render.rows import code, escape, markdown_table, write_csv
from hfkv.render.units import bandwidth, gigabytes, size_or_none

__all__ = ["GPU_HEADING", "gpu_row", "gpus_csv", "gpus_document", "gpus_markdown"]

GPU_HEADING = ("--gpu", "GPU", ">sold as", ">driver", ">usable", ">bandwidth")


def gpus_document(gpus: Sequence[Gpu]) -> dict[str, Any]:
    """Return the `hfkv.gpus/1` document; a figure that nobody has seen is null."""
    return {"schema": "hfkv.gpus/1", "gpus": [_entry(gpu) for gpu in gpus]}


def _entry(gpu: Gpu) -> dict[str, Any]:
    return {
        "slug": gpu.slug,
        "name": gpu.name,
        "aliases": list(gpu.aliases),
        "memory_bytes": gpu.memory_bytes,
        "framework_bytes": gpu.framework_bytes,
        "bandwidth_bytes_per_s": gpu.bandwidth_bytes_per_s,
        "vendor": gpu.vendor,
        "driver_bytes": gpu.driver_bytes,
        "bf16_flops": gpu.bf16_flops,
        "fp8_flops": gpu.fp8_flops,
        "compute_capability": gpu.compute_capability,
        "unified": gpu.unified,
        "sources": dict(gpu.sources),
        "references": list(gpu.references),
        "notes": gpu.notes,
    }


def gpu_row(gpu: Gpu) -> tuple[str, ...]:
    """Return one GPU under GPU_HEADING."""
    return (
        gpu.slug,
        gpu.name,
        gigabytes(gpu.memory_bytes),
        size_or_none(gpu.driver_bytes),
        size_or_none(gpu.framework_bytes),
        bandwidth(gpu.bandwidth_bytes_per_s),
    )


def gpus_markdown(gpus: Sequence[Gpu]) -> str:
    """Return the table as Markdown."""
    rows = [gpu_row(gpu) for gpu in gpus]
    return markdown_table(GPU_HEADING, [(code(row[0]), escape(row[1]), *row[2:]) for row in rows])


def gpus_csv(gpus: Sequence[Gpu]) -> str:
    """Return the table as CSV, its lists with spaces between."""
    entries = [_entry(gpu) for gpu in gpus]
    columns = [key for key in entries[0] if key not in ("sources", "references")]
    return write_csv(columns, ([_flat(entry[key]) for key in columns] for entry in entries))


def _flat(value: object) -> object:
    return " ".join(value) if isinstance(value, list) else value
