"""What older releases of vLLM do not know yet: flags, cache formats, sizes of a block.

Source: engine/arg_utils.py, config/vllm.py and config/cache.py (`CacheDType`, `BlockSize`) of
vLLM 0.8.5, 0.9.2, 0.10.0, 0.11.2, 0.12, 0.14, 0.16, 0.19, 0.26 and 0.32; a thing is taken to be
new in the first of them that has it. Up to 0.7 drafts had flags of their own (docs, "Speculative
decoding").
"""

from __future__ import annotations

from collections.abc import Iterator

from hfkv.core.workload import Deployment
from hfkv.errors import UsageError

__all__ = ["FLAG_SINCE", "FORMAT_SINCE", "refuse_format", "refuse_unknown"]

Version = tuple[int, int]

FLAG_SINCE: dict[str, Version] = {
    "--no-enable-prefix-caching": (0, 8),
    "--speculative-config": (0, 8),
    "--disable-hybrid-kv-cache-manager": (0, 9),
    "--decode-context-parallel-size": (0, 11),
    "--kv-offloading-size": (0, 11),
    "--async-scheduling": (0, 10),
    "--no-async-scheduling": (0, 14),  # until then it is off
}
_PLANNED_DRAFTS, _PLANNED_STAGES = (0, 11), (0, 16)  # with --async-scheduling
# Formats that --kv-cache-dtype did not always take; 16 bit could be had by --dtype.
FORMAT_SINCE: dict[str, Version] = {
    "bfloat16": (0, 11),
    "float16": (0, 19),
    "fp8_ds_mla": (0, 11),
    "nvfp4": (0, 26),
    "fp8_per_token_head": (0, 26),
    "int8_per_token_head": (0, 26),
    "int4_per_token_head": (0, 26),
}
_ANY_BLOCK = (0, 19)
_BLOCKS, _LARGER_BLOCK = (16, 32, 64, 128), (0, 11)  # and 256


def refuse_unknown(deployment: Deployment, version: Version) -> None:
    """Raise UsageError for what a release has no flag for, with the one that has.

    A flag is named as hfkv spells it and as vLLM does.
    """
    for said, since in _wanted(deployment):
        if version < since:
            raise _unknown(version, said, since)
    size = deployment.block_size
    sizes = _BLOCKS if version < _LARGER_BLOCK else (*_BLOCKS, 256)
    if size is not None and version < _ANY_BLOCK and size not in sizes:
        raise UsageError(
            f"vLLM {_shown(version)} has no blocks of {size} tokens",
            hint="it has " + ", ".join(map(str, sizes)),
            code="block-size",
        )


def _wanted(deployment: Deployment) -> Iterator[tuple[str, Version]]:
    """Yield what is asked for that not every release has, and the first one that has it."""
    if deployment.decode_context_parallel_size > 1:
        flag = "--decode-context-parallel-size"
        yield f"--dcp / {flag}", FLAG_SINCE[flag]
    if deployment.host_kv_bytes > 0:
        yield "--cpu-kv / --kv-offloading-size", FLAG_SINCE["--kv-offloading-size"]
    planned = "--async-scheduling"
    if not deployment.async_scheduling:
        return
    yield planned, FLAG_SINCE[planned]
    if deployment.num_speculative_tokens > 0:
        yield f"{planned} with --num-speculative-tokens / --speculative-config", _PLANNED_DRAFTS
    if deployment.pipeline_parallel_size > 1:
        yield f"{planned} with --pp / --pipeline-parallel-size", _PLANNED_STAGES


def refuse_format(name: str, version: Version) -> None:
    """Raise UsageError for a cache format that a release does not have; 16 bit always is."""
    since = FORMAT_SINCE.get(name)
    if since and version < since and name not in ("bfloat16", "float16"):
        raise _unknown(version, f"--kv-dtype / --kv-cache-dtype {name}", since)


def _unknown(version: Version, flag: str, since: Version) -> UsageError:
    return UsageError(
        f"vLLM {_shown(version)} has no {flag}",
        hint=f"vLLM {_shown(since)} has it: --engine-version {_shown(since)}",
        code="engine-version",
    )


def _shown(version: Version) -> str:
    return ".".join(map(str, version))
