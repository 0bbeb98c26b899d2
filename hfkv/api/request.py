"""What is asked for, by the names that the command line and the Python functions share.

`READERS` has how each name is written where it is text; `NOT_SAID` is what each is when nobody
says. The command line reads with the same functions, so a wrong value gets the same sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hfkv.core import written
from hfkv.core.dtypes import cache_dtype
from hfkv.core.workload import Deployment, GpuChoice, Workload, resolved
from hfkv.errors import UsageError

__all__ = ["NOT_SAID", "READERS", "hardware_of", "read", "read_all", "workload_of"]

READERS: dict[str, Callable[[str], object]] = {
    "context": written.context,
    "concurrency": written.whole,
    "seq_lens": written.lengths,
    "prompt": written.source_tokens,
    "output_tokens": written.source_tokens,
    "shared_prefix": written.source_tokens,
    "beams": written.whole,
    "source_tokens": written.source_tokens,
    "max_num_batched_tokens": written.whole,
    "max_num_seqs": written.whole,
    "block_size": written.whole,
    "num_speculative_tokens": written.whole,
    "dcp": written.whole,
    "tp": written.whole,
    "pp": written.whole,
    "utilization": written.share,
    "overhead": written.size,
    "offload": written.offload,
    "cpu_kv": written.size,
}

NOT_SAID: dict[str, Any] = {
    **dict.fromkeys(READERS),
    "beams": 1,
    "pp": 1,
    "kv_dtype": "auto",
    "weights_dtype": None,
    "engine": "none",
    "engine_version": None,
    "enable_prefix_caching": None,
    "disable_hybrid_kv_cache_manager": None,
    "async_scheduling": None,
    "enforce_eager": None,
    "gpu": (),
}

# What is neither read nor a number, by what it has to be.
_PLAIN: dict[str, tuple[type, str]] = {
    **dict.fromkeys(
        (
            "kv_dtype",
            "weights_dtype",
            "engine",
            "engine_version",
            "gpu",
            "revision",
            "token",
            "sort",
        ),
        (str, "text"),
    ),
    **dict.fromkeys(
        (
            "enable_prefix_caching",
            "disable_hybrid_kv_cache_manager",
            "async_scheduling",
            "enforce_eager",
            "deep",
            "offline",
        ),
        (bool, "True or False"),
    ),
}

# What only vLLM has a flag for, and all spellings of the flag.
_VLLM = {
    "block_size": "--block-size",
    "enable_prefix_caching": "--enable-prefix-caching / --prefix-caching",
    "num_speculative_tokens": "--num-speculative-tokens",
    "dcp": "--dcp / --decode-context-parallel-size",
    "disable_hybrid_kv_cache_manager": "--disable-hybrid-kv-cache-manager",
    "async_scheduling": "--async-scheduling",
    "enforce_eager": "--enforce-eager",
}


def read_all(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was asked for as the command line reads it; a number needs no quotes.

    None is as if nothing had been said.

    Raises UsageError for a value that means nothing, with its name.
    """
    given = dict(NOT_SAID)
    for name, value in asked.items():
        if value is not None:
            given[name] = _taken(name, value)
    return given


def _taken(name: str, value: object) -> Any:
    if name in READERS:
        return read(name, value, READERS[name])
    if name == "gpu":
        several = (value,) if isinstance(value, str) or not isinstance(value, Iterable) else value
        return tuple(_plain(name, one) for one in several)
    return _plain(name, value)


def _plain(name: str, value: object) -> object:
    """Return a value that is taken as it is; one of a wrong kind may be a token: it is not told."""
    kind, said = _PLAIN.get(name, (object, ""))
    if not isinstance(value, kind):
        raise UsageError(f"{said} is expected, not {type(value).__name__}", where=name)
    return value


def read(name: str, value: object, reader: Callable[[str], object]) -> Any:
    """Return one value; a whole number where a size is expected is bytes."""
    if reader is written.lengths and isinstance(value, Sequence) and not isinstance(value, str):
        if not value:
            return None
        value = ",".join(str(one) for one in value)
    elif isinstance(value, float):
        value = f"{value:.12g}"
    elif isinstance(value, int) and value >= 0 and reader is written.size:
        value = f"{value}b"
    try:
        return reader(str(value).strip())
    except ValueError as error:
        raise UsageError(str(error), where=name) from None


def workload_of(given: Mapping[str, Any]) -> Workload:
    """Return the workload that is described.

    Raises UsageError for what cannot be meant, before anything is read.
    """
    if given["seq_lens"] and (given["context"] or given["concurrency"]):
        raise UsageError(
            "--seq-lens replaces --context and --concurrency",
            hint="drop them, or drop --seq-lens",
        )
    from hfkv.core.engines.registry import engine_named  # noqa: PLC0415  --help does without

    engine_named(given["engine"])
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
        output=given["output_tokens"],
        shared_prefix=given["shared_prefix"] or 0,
        weights_dtype=given["weights_dtype"],
        beams=given["beams"],
    )
    resolved(work)
    return work


def hardware_of(given: Mapping[str, Any]) -> Deployment:
    """Return the hardware that is described, and how it is shared out."""
    return Deployment(
        gpus=tuple(choice for text in given["gpu"] for choice in _choices(text)),
        tensor_parallel_size=given["tp"],
        pipeline_parallel_size=given["pp"],
        utilization=given["utilization"],
        overhead_bytes=given["overhead"],
        offloaded_weights=given["offload"] or Fraction(0),
        host_kv_bytes=given["cpu_kv"] or 0,
    )


def _deployment(given: Mapping[str, Any]) -> Deployment:
    from hfkv.core.engines.registry import engine_named  # noqa: PLC0415  --help does without

    foreign = next((name for name in _VLLM if given[name] is not None), None)
    if foreign is not None and engine_named(given["engine"]).name != "vllm":
        flag = _VLLM[foreign]
        said = flag.replace("--", "--no-") if given[foreign] is False else flag
        raise UsageError(f"{said} is a flag of vLLM", hint="add --engine vllm")
    return replace(
        hardware_of(given),
        engine_version=given["engine_version"],
        max_num_batched_tokens=given["max_num_batched_tokens"],
        max_num_seqs=given["max_num_seqs"],
        block_size=given["block_size"],
        enable_prefix_caching=given["enable_prefix_caching"],
        num_speculative_tokens=given["num_speculative_tokens"] or 0,
        decode_context_parallel_size=given["dcp"] or 1,
        hybrid_kv_cache_manager=not given["disable_hybrid_kv_cache_manager"],
        async_scheduling=given["async_scheduling"],
        enforce_eager=bool(given["enforce_eager"]),
    )


def _choices(text: str) -> tuple[GpuChoice, ...]:
    if text.strip().lower() == "auto":
        from hfkv.sources.machine import machine_gpus  # noqa: PLC0415  starts a process

        return machine_gpus()
    from hfkv.core.gpus import parse_gpu  # noqa: PLC0415  reads the table

    return parse_gpu(text)
