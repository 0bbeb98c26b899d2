"""How vLLM is started: its flags, and what it takes where a flag is not given."""

from __future__ import annotations

import re

from hfkv.core.architecture import Architecture
from hfkv.core.engines.vllm_releases import refuse_unknown
from hfkv.core.gpus import HOPPER, capability
from hfkv.core.record import dataclass
from hfkv.core.stores import Role
from hfkv.core.workload import Deployment, GpuChoice
from hfkv.errors import UsageError

__all__ = [
    "LATEST",
    "VllmOptions",
    "batch_defaults",
    "options_for",
    "parse_version",
    "whole_prompts",
]

_GIB = 2**30
LATEST = (0, 32)

# From this version on a limit that is not stated follows the one that is.
# Source: vLLM 0.11.2 and 0.32, engine/arg_utils.py,
# `_set_default_max_num_seqs_and_batched_tokens_args`; 0.10.0 has no such rule.
_LIMITS_FOLLOW = (0, 11)
# From this one on cards of 160 GiB have a class of their own; 0.27 has none yet.
_LARGEST_CARDS = (0, 28)

# Before vLLM 0.8 a prompt was computed whole, unless the context was longer than this.
# Source: vLLM 0.6.3 and 0.7.3, engine/arg_utils.py, `enable_chunked_prefill`.
_WHOLE_PROMPTS_BEFORE = (0, 8)
_WHOLE_UP_TO = 32_768
_SHORTEST_STEP, _OLD_CHUNK, _OLD_SEQS = 2048, 512, 256


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmOptions:
    """One way to start vLLM. A name is the flag's; None means vLLM's own default.

    `default_batched_tokens` and `default_seqs` are the API server's defaults on this class
    of GPU; `compute_capability` is its major number, which decides the attention backend.
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    default_batched_tokens: int = 8192
    default_seqs: int = 1024
    block_size: int | None = None
    enable_prefix_caching: bool | None = None
    hybrid_kv_cache_manager: bool = True
    num_speculative_tokens: int = 0
    async_scheduling: bool = True
    compute_capability: int = HOPPER
    version: tuple[int, int] = LATEST

    def step(self, max_model_len: int, *, whole_prompts: bool = False) -> tuple[int, int]:
        """Return the tokens computed and the sequences sampled in one step.

        What is not stated is the default for this GPU, and no more than the other allows.
        Where prompts are computed whole (encoder-decoders), the longest fits in one step.
        """
        seqs = self.max_num_seqs or self.default_seqs
        tokens, follows = self.max_num_batched_tokens, self.version >= _LIMITS_FOLLOW
        if tokens is None:
            tokens = self._default_tokens(max_model_len)
            if whole_prompts:
                tokens = max(tokens, max_model_len)
            if follows:
                tokens = min(tokens, seqs * max_model_len)
        if self.max_num_seqs is None and follows:
            seqs = min(seqs, tokens)
        return tokens, seqs

    def _default_tokens(self, max_model_len: int) -> int:
        if self.version >= _WHOLE_PROMPTS_BEFORE:
            return self.default_batched_tokens
        return max(max_model_len, _SHORTEST_STEP) if max_model_len <= _WHOLE_UP_TO else _OLD_CHUNK

    @property
    def concurrent_batches(self) -> int:
        """Return how many steps may be under way at once.

        Source: vLLM 0.32 config/vllm.py, max_concurrent_batches; versions up to 0.21
        reserve for one.
        """
        if self.version < (0, 26):
            return 1
        return self.pipeline_parallel_size + (1 if self.async_scheduling else 0)


def batch_defaults(gpu: GpuChoice, version: tuple[int, int]) -> tuple[int, int]:
    """Return max_num_batched_tokens and max_num_seqs of the API server on one kind of GPU.

    Source: vLLM 0.10 to 0.32, engine/arg_utils.py, `get_batch_defaults`.
    """
    if gpu.memory_bytes >= 160 * _GIB and version >= _LARGEST_CARDS:
        return 16384, 1024
    if gpu.memory_bytes >= 70 * _GIB and "a100" not in (gpu.slug + gpu.name).casefold():
        return 8192, 1024
    return 2048, 256


def whole_prompts(arch: Architecture) -> bool:
    """Tell whether vLLM computes the prompts of a model whole, as it does encoder-decoders'.

    Source: vLLM 0.11.2 and 0.32, config/scheduler.py, `__post_init__`.
    """
    return arch.source_tokens != 0 and any(
        store.role is Role.CROSS for layer in arch.layers for store in layer.stores
    )


def options_for(deployment: Deployment) -> VllmOptions:
    """Return the options that a deployment states; without a GPU, those of an 80 GB H100.

    With several kinds of GPU the first one counts. Raises UsageError for a version that is
    none or has no flag for what is stated, and for sizes below 1.
    """
    _check(deployment)
    version = parse_version(deployment.engine_version)
    refuse_unknown(deployment, version)
    pp = deployment.pipeline_parallel_size
    tp = deployment.tensor_parallel_size
    tokens, seqs, major = 8192, 1024, HOPPER
    if deployment.gpus:
        gpu = deployment.gpus[0]
        tokens, seqs = batch_defaults(gpu, version)
        major = capability(gpu)
        tp = tp or max(1, gpu.count // pp)
    if version < _WHOLE_PROMPTS_BEFORE:
        seqs = _OLD_SEQS
    return VllmOptions(
        tensor_parallel_size=tp or 1,
        pipeline_parallel_size=pp,
        decode_context_parallel_size=deployment.decode_context_parallel_size,
        max_num_batched_tokens=deployment.max_num_batched_tokens,
        max_num_seqs=deployment.max_num_seqs,
        default_batched_tokens=tokens,
        default_seqs=seqs,
        block_size=deployment.block_size,
        enable_prefix_caching=deployment.enable_prefix_caching,
        hybrid_kv_cache_manager=deployment.hybrid_kv_cache_manager,
        num_speculative_tokens=deployment.num_speculative_tokens,
        async_scheduling=deployment.async_scheduling is not False,
        compute_capability=major,
        version=version,
    )


def _check(deployment: Deployment) -> None:
    sizes = {
        "--tp": deployment.tensor_parallel_size,
        "--pp": deployment.pipeline_parallel_size,
        "the decode context parallel size": deployment.decode_context_parallel_size,
        "--max-num-batched-tokens": deployment.max_num_batched_tokens,
        "--max-num-seqs": deployment.max_num_seqs,
        "the block size": deployment.block_size,
    }
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise UsageError(f"{name} must be at least 1, not {size}", code="size")
    if deployment.num_speculative_tokens < 0:
        raise UsageError("the number of speculative tokens must not be negative", code="size")


def parse_version(text: str | None) -> tuple[int, int]:
    """Return a vLLM version as (major, minor); None is the newest that hfkv knows.

    Raises UsageError for a text that is no version.
    """
    if text is None:
        return LATEST
    found = re.match(r"v?([0-9]{1,6})\.([0-9]{1,6})", text)
    if found is None:
        raise UsageError(
            f"{text[:40]!r} is not a version of vLLM",
            hint="write it as vLLM prints it, for example --engine-version 0.19.1",
            code="engine-version",
        )
    return int(found[1]), int(found[2])
