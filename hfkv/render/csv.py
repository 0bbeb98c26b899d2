"""A report as rows for a spreadsheet: one a GPU, or one when no GPU was asked about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hfkv.core.report import Report
from hfkv.render.json import inspect_document
from hfkv.render.rows import write_csv

__all__ = ["COLUMNS", "inspect_csv", "report_rows"]

# Column and its path in the `hfkv.inspect/1` document; `fit` is the GPU of the row.
COLUMNS: dict[str, str] = {
    "id": "target.id",
    "revision": "target.revision",
    "sha": "target.sha",
    "class_name": "architecture.class_name",
    "model_type": "architecture.model_type",
    "attention": "architecture.attention",
    "confidence": "architecture.confidence",
    "max_context": "architecture.max_context",
    "parameters": "weights.parameters",
    "weights_bytes": "weights.bytes",
    "weights_loaded_bytes": "weights.loaded_bytes",
    "quantization": "weights.quantization.format",
    "tokens": "kv_cache.tokens",
    "sequences": "kv_cache.sequences",
    "kv_dtype": "kv_cache.dtype",
    "engine": "kv_cache.engine",
    "kv_bytes": "kv_cache.bytes",
    "kv_bytes_per_sequence": "kv_cache.bytes_per_sequence",
    "kv_bytes_per_token": "kv_cache.bytes_per_token",
    "kv_fixed_bytes_per_sequence": "kv_cache.fixed_bytes_per_sequence",
    "simple_formula_applies": "kv_cache.simple_formula.applies",
    "simple_formula_bytes": "kv_cache.simple_formula.bytes",
    "gpu": "fit.gpu",
    "gpu_count": "fit.count",
    "tensor_parallel_size": "fit.tensor_parallel_size",
    "pipeline_parallel_size": "fit.pipeline_parallel_size",
    "fits": "fit.fits",
    "short_by_bytes": "fit.short_by_bytes",
    "kv_pool_bytes_per_gpu": "fit.kv_pool_bytes_per_gpu",
    "max_sequences": "fit.max_sequences",
    "longest_sequence": "fit.max_context",
    "max_tokens": "fit.max_tokens",
    "verdict": "fit.verdict",
    "weights_what_if": "weights.what_if.format",
    "weights_what_if_bytes": "weights.what_if.bytes",
}


def inspect_csv(report: Report) -> str:
    """Return the report as a heading and its rows; `warnings` are codes with spaces between."""
    return write_csv((*COLUMNS, "warnings"), report_rows(report))


def report_rows(report: Report) -> Iterator[list[object]]:
    """Yield the rows of one report."""
    document = inspect_document(report)
    codes = " ".join(warning["code"] for warning in document["warnings"])
    for fit in document["fit"] or [None]:
        yield [*(_at({**document, "fit": fit}, path) for path in COLUMNS.values()), codes]


def _at(document: Any, path: str) -> object:
    for key in path.split("."):
        if document is None:
            return None
        document = document[key]
    return document
