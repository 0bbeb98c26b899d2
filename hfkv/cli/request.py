"""Parsed options → what the core and the sources take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hfkv.cli.output import told_apart
from hfkv.core.dtypes import cache_dtype
from hfkv.core.workload import Deployment, GpuChoice, Workload, resolved
from hfkv.errors import UsageError

__all__ = ["hardware_of", "workload_of"]

_VLLM_FLAGS = {
    "--block-size": "block_size",
    "--enable-prefix-caching": "prefix_caching",
    "--num-speculative-tokens": "num_speculative_tokens",
    "--decode-context-parallel-size": "decode_context_parallel_size",
    "--disable-hybrid-kv-cache-manager": "one_kind_of_cache",
}


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
    if given["weights_dtype"] is not None:
        from hfkv.core.what_if import weight_format  # noqa: PLC0415  few ask what if

        weight_format(given["weights_dtype"])
    work = Workload(
        context=given["context"],
        sequences=given["concurrency"] or 1,
        seq_lens=given["seq_lens"] or (),
        kv_dtype=given["kv_dtype"],
        engine=given["engine"],
        source_tokens=given["source_tokens"],
        deployment=_deployment(given),
        prompt=given["prompt"],
        output=_output_tokens(given),
        shared_prefix=given["shared_prefix"] or 0,
        weights_dtype=given["weights_dtype"],
        beams=given["beams"],
    )
    resolved(work)
    return work


def _output_tokens(given: Mapping[str, Any]) -> int | None:
    """Return the tokens after the prompt, which `--output 1k` states as well."""
    stated = given["output_tokens"]
    return told_apart(given)[1] if stated is None else stated


def hardware_of(given: Mapping[str, Any]) -> Deployment:
    """Return the hardware that the options describe, and how it is shared out."""
    return Deployment(
        gpus=tuple(choice for text in given["gpus"] for choice in _choices(text)),
        tensor_parallel_size=given["tensor_parallel_size"],
        pipeline_parallel_size=given["pipeline_parallel_size"],
        utilization=given["utilization"],
        overhead_bytes=given["overhead"],
        offloaded_weights=given["offloaded_weights"] or Fraction(0),
        host_kv_bytes=given["cpu_kv"] or 0,
    )


def _deployment(given: Mapping[str, Any]) -> Deployment:
    foreign = next((flag for flag, name in _VLLM_FLAGS.items() if given[name] is not None), None)
    if foreign is not None and given["engine"] != "vllm":
        raise UsageError(f"{foreign} is a flag of vLLM", hint="add --engine vllm")
    return replace(
        hardware_of(given),
        engine_version=given["engine_version"],
        max_num_batched_tokens=given["max_num_batched_tokens"],
        max_num_seqs=given["max_num_seqs"],
        block_size=given["block_size"],
        enable_prefix_caching=given["prefix_caching"],
        num_speculative_tokens=given["num_speculative_tokens"] or 0,
        decode_context_parallel_size=given["decode_context_parallel_size"] or 1,
        hybrid_kv_cache_manager=not given["one_kind_of_cache"],
    )


def _choices(text: str) -> tuple[GpuChoice, ...]:
    if text.strip().lower() == "auto":
        from hfkv.sources.machine import machine_gpus  # noqa: PLC0415  starts a process

        return machine_gpus()
    from hfkv.core.gpus import parse_gpu  # noqa: PLC0415  reads the table

    return parse_gpu(text)
