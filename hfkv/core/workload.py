"""What the user wants to run: lengths, concurrency, engine and hardware, as plain data."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hfkv.core.record import dataclass
from hfkv.errors import UsageError

__all__ = ["Deployment", "GpuChoice", "Workload", "resolved"]

_LONGEST = 2**40  # tokens or sequences
_MOST_BEAMS = 1024
_MOST_DRAFTED = 1024  # vLLM states no limit; drafters are made for a few


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuChoice:
    """One `--gpu` answer: `count` devices of one kind.

    `memory_bytes` is what the framework sees on one device where that is known, else what
    the driver reports, else the marketing size; `memory_source` says which. `slug` is the
    table's name, or the text the user gave for an anonymous size (`24gb`). `free_bytes` is
    what nobody uses now on the fullest of them, for devices of this machine.
    """

    slug: str
    name: str
    count: int
    memory_bytes: int
    memory_source: str
    free_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """How the engine is started. None means the engine's own default.

    `utilization` is the share of GPU memory the engine may take, as an exact fraction;
    `overhead_bytes` is activations and runtime per GPU when the user states it. Host
    memory takes `offloaded_weights`, an exact share of the weights, and up to
    `host_kv_bytes` of the cache, of all GPUs together. Seven are vLLM's own: how many ranks
    share the positions of a sequence, tokens in a block, whether prefixes are cached,
    tokens drafted ahead, whether windowed layers are managed apart from full ones,
    whether a step is planned while another runs, and whether no graphs are captured.
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
    async_scheduling: bool | None = None
    enforce_eager: bool = False
    offloaded_weights: Fraction = Fraction(0)
    host_kv_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is asked of the cache.

    `context` is tokens kept per sequence (None: the model's maximum); `sequences` are
    resident at once; `seq_lens`, when given, are the real lengths and replace both.
    `kv_dtype` is a format name or `auto`; `source_tokens` is the encoder or image positions
    that cross-attention holds (None: the model's maximum). `prompt` and `output` are the
    two parts of a length and replace `context` with their sum; the first `shared_prefix`
    tokens of all sequences are the same. With `beams`, each sequence is a request of so many,
    which have its prompt in common. `weights_dtype` asks what the weights would take
    in another format (None: they are taken as they are stored).
    """

    context: int | None = None
    sequences: int = 1
    seq_lens: tuple[int, ...] = ()
    kv_dtype: str = "auto"
    engine: str = "none"
    source_tokens: int | None = None
    deployment: Deployment = Deployment()
    prompt: int | None = None
    output: int | None = None
    shared_prefix: int = 0
    weights_dtype: str | None = None
    beams: int = 1


def resolved(work: Workload) -> Workload:
    """Return the workload with prompt and output added up to its context.

    Raises UsageError for numbers that make no sense together or at all.
    """
    if work.prompt is None and work.output is not None:
        raise UsageError(
            "--output-tokens follow a --prompt, and there is none",
            hint="add --prompt, or say --context for all of it",
        )
    if work.prompt is not None:
        parts = (work.prompt, work.output or 0)
        if work.seq_lens or work.context not in (None, sum(parts)):
            raise UsageError(
                "--prompt and --output replace --context and --seq-lens",
                hint="give one or the other",
            )
        if min(parts) < 0:
            raise UsageError("--prompt and --output must not be negative")
        work = replace(work, context=sum(parts))
    _check(work)
    return work


def _check(work: Workload) -> None:
    lengths = (*work.seq_lens, *((work.context,) if work.context is not None else ()))
    if any(not 0 < length <= _LONGEST for length in lengths):
        raise UsageError("a sequence length must be a positive number of tokens")
    if not 0 < work.sequences <= _LONGEST:
        raise UsageError("the concurrency must be a positive number of sequences")
    if work.source_tokens is not None and not 0 <= work.source_tokens <= _LONGEST:
        raise UsageError("--source-tokens must not be negative")
    if not 0 < work.beams <= _MOST_BEAMS:
        raise UsageError(f"--beams is from 1 to {_MOST_BEAMS:,}", code="beams")
    if work.shared_prefix < 0:
        raise UsageError("--shared-prefix must not be negative")
    deployment = work.deployment
    if deployment.num_speculative_tokens > _MOST_DRAFTED:
        raise UsageError(
            f"--num-speculative-tokens is from 1 to {_MOST_DRAFTED:,}", code="speculative"
        )
    if not 0 <= deployment.offloaded_weights <= 1:
        raise UsageError(
            f"--offload weights={float(deployment.offloaded_weights):.0%} is not a share of the "
            "weights",
            hint="it is from 0% to 100%",
            code="offload",
        )
    if deployment.host_kv_bytes < 0:
        raise UsageError(
            f"--cpu-kv {deployment.host_kv_bytes} is negative",
            hint="give a size such as 32gib",
            code="cpu-kv",
        )
