"""What the user wants to run: lengths, concurrency, engine and hardware, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

__all__ = ["Deployment", "GpuChoice", "Workload"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuChoice:
    """One `--gpu` answer: `count` devices of one kind.

    `memory_bytes` is what the framework sees on one device where that is known, else what
    the driver reports, else the marketing size; `memory_source` says which. `slug` is the
    table's name, or the text the user gave for an anonymous size (`24gb`).
    """

    slug: str
    name: str
    count: int
    memory_bytes: int
    memory_source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """How the engine is started. None means the engine's own default.

    `utilization` is the share of GPU memory the engine may take, as an exact fraction;
    `overhead_bytes` is activations and runtime per GPU when the user states it. The last
    five are vLLM's own: how many ranks share the positions of a sequence, tokens in a
    block, whether prefixes are cached, tokens drafted ahead, and whether windowed layers
    are managed apart from full ones.
    """

    gpus: tuple[GpuChoice, ...] = ()
    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int = 1
    utilization: Fraction | None = None
    overhead_bytes: int | None = None
    engine_version: str | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    decode_context_parallel_size: int = 1
    block_size: int | None = None
    enable_prefix_caching: bool | None = None
    num_speculative_tokens: int = 0
    hybrid_kv_cache_manager: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is asked of the cache.

    `context` is tokens kept per sequence (None: the model's maximum); `sequences` are
    resident at once; `seq_lens`, when given, are the real lengths and replace both.
    `kv_dtype` is a format name or `auto`; `source_tokens` is the encoder or image positions
    that cross-attention holds (None: the model's maximum).
    """

    context: int | None = None
    sequences: int = 1
    seq_lens: tuple[int, ...] = ()
    kv_dtype: str = "auto"
    engine: str = "none"
    source_tokens: int | None = None
    deployment: Deployment = Deployment()
