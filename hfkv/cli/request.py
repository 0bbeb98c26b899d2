"""Parsed options → what the core and the sources take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hfkv.core.dtypes import cache_dtype
from hfkv.core.workload import Deployment, GpuChoice, Workload
from hfkv.errors import UsageError

__all__ = ["hardware_of", "workload_of"]


def workload_of(given: Mapping[str, Any]) -> Workload:
    """Return the workload that the options describe.

    Raises UsageError for what cannot be meant, before anything is read.
    """
    if given["seq_lens"] and (given["context"] or given["concurrency"]):
        raise UsageError(
            "--seq-lens replaces --context and --concurrency",
            hint="drop them, or drop --seq-lens",
        )
    if given["kv_dtype"] != "auto":
        cache_dtype(given["kv_dtype"])
    return Workload(
        context=given["context"],
        sequences=given["concurrency"] or 1,
        seq_lens=given["seq_lens"] or (),
        kv_dtype=given["kv_dtype"],
        engine=given["engine"],
        source_tokens=given["source_tokens"],
        deployment=_deployment(given),
    )


def hardware_of(given: Mapping[str, Any]) -> Deployment:
    """Return the hardware that the options describe, and how it is shared out."""
    return Deployment(
        gpus=tuple(choice for text in given["gpus"] for choice in _choices(text)),
        tensor_parallel_size=given["tensor_parallel_size"],
        pipeline_parallel_size=given["pipeline_parallel_size"],
        utilization=given["utilization"],
        overhead_bytes=given["overhead"],
    )


def _deployment(given: Mapping[str, Any]) -> Deployment:
    return replace(
        hardware_of(given),
        engine_version=given["engine_version"],
        max_num_batched_tokens=given["max_num_batched_tokens"],
        max_num_seqs=given["max_num_seqs"],
    )


def _choices(text: str) -> tuple[GpuChoice, ...]:
    if text.strip().lower() == "auto":
        from hfkv.sources.machine import machine_gpus  # noqa: PLC0415  starts a process

        return machine_gpus()
    from hfkv.core.gpus import parse_gpu  # noqa: PLC0415  reads the table

    return parse_gpu(text)
