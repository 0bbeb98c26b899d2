"""The options that say what is to be held, by which engine, and on which hardware."""

from __future__ import annotations

from collections.abc import Callable

from hfkv.cli import complete
from hfkv.cli.options import Function, option, together
from hfkv.cli.params import EngineName, Written
from hfkv.core import written

__all__ = ["engine_options", "gpu_options", "work_options"]

_COUNT = Written("n", written.whole)
_TOKENS = Written("tokens", written.source_tokens)


_HELD = "What it has to hold"


def work_options(function: Function) -> Function:
    """Add what says how much is to be kept, and in which formats."""
    return together(_length_options(_HELD), _format_options(_HELD))(function)


def _length_options(section: str) -> Callable[[Function], Function]:
    return together(
        option(
            "-c",
            "--context",
            "--max-model-len",
            "--ctx",
            "context",
            type=Written("tokens", written.context),
            section=section,
            help="Tokens of each sequence: 8192, 32k, 1m, max. [default: the model's maximum]",
        ),
        option(
            "-b",
            "--concurrency",
            "--batch",
            "--batch-size",
            "concurrency",
            type=_COUNT,
            section=section,
            help="Sequences resident at once. [default: 1]",
        ),
        option(
            "--seq-lens",
            type=Written("lengths", written.lengths),
            section=section,
            help="The real lengths instead: 1200,8k,32k.",
        ),
        option(
            "--prompt",
            type=_TOKENS,
            section=section,
            help="A prompt instead of --context; --output 1k are the tokens that follow it.",
        ),
        option(
            "--output-tokens",
            type=_TOKENS,
            section=section,
            help="The same as --output 1k beside --prompt.",
        ),
        option(
            "--shared-prefix",
            type=_TOKENS,
            section=section,
            help="First tokens that all sequences have in common.",
        ),
        option(
            "--beams",
            type=_COUNT,
            default="1",
            show_default=True,
            section=section,
            help="Beams of each sequence; they have its --prompt in common.",
        ),
        option(
            "--source-tokens",
            type=_TOKENS,
            section=section,
            help="Encoder or image positions under cross-attention. [default: the model's maximum]",
        ),
    )


def _format_options(section: str) -> Callable[[Function], Function]:
    return together(
        option(
            "--kv-dtype",
            "--kv-cache-dtype",
            "kv_dtype",
            default="auto",
            metavar="DTYPE",
            shell_complete=complete.kv_dtype,
            section=section,
            help="auto, bf16, fp16, fp32, fp8, int8, q8_0, q4_0, int4, nvfp4 … [default: auto,"
            " what the checkpoint declares]",
        ),
        option(
            "--weights-dtype",
            metavar="DTYPE",
            shell_complete=complete.weights_dtype,
            section=section,
            help="What if the weights were fp8, int4, nf4, mxfp4 …: an estimate. [default: as they"
            " are stored]",
        ),
    )


def engine_options(function: Function) -> Function:
    """Add what says by which engine it is kept, and under which of its limits."""
    section = "By which engine"
    return together(
        option(
            "--engine",
            type=EngineName(),
            shell_complete=complete.engine,
            default="none",
            show_default=True,
            section=section,
            help="none is the raw need; an engine adds its own rules.",
        ),
        option(
            "--engine-version",
            metavar="VERSION",
            section=section,
            help="Release whose rules apply. [default: the newest known]",
        ),
        option(
            "--max-num-batched-tokens",
            type=_COUNT,
            section=section,
            help="The engine's limit of tokens a step. [default: the engine's]",
        ),
        option(
            "--max-num-seqs",
            type=_COUNT,
            section=section,
            help="The engine's limit of sequences. [default: the engine's]",
        ),
        _vllm_options(section),
    )(function)


def _vllm_options(section: str) -> Callable[[Function], Function]:
    """Return the decorator that adds what vLLM alone has a flag for."""
    return together(
        option("--block-size", type=_COUNT, section=section, help="vLLM: tokens of a block."),
        option(
            "--enable-prefix-caching/--no-enable-prefix-caching",
            "--prefix-caching/--no-prefix-caching",
            "enable_prefix_caching",
            default=None,
            section=section,
            help="vLLM: whether prefixes are cached.",
        ),
        option(
            "--num-speculative-tokens",
            type=_COUNT,
            section=section,
            help="vLLM: tokens drafted ahead by next-token (MTP) layers.",
        ),
        option(
            "--dcp",
            "--decode-context-parallel-size",
            "dcp",
            type=_COUNT,
            section=section,
            help="vLLM: GPUs that share the positions of a sequence.",
        ),
        option(
            "--disable-hybrid-kv-cache-manager/--no-disable-hybrid-kv-cache-manager",
            "disable_hybrid_kv_cache_manager",
            default=None,
            section=section,
            help="vLLM: windowed layers keep all tokens too.",
        ),
        option(
            "--async-scheduling/--no-async-scheduling",
            "async_scheduling",
            default=None,
            section=section,
            help="vLLM: whether a step is planned while another runs.",
        ),
        option(
            "--enforce-eager/--no-enforce-eager",
            "enforce_eager",
            default=None,
            section=section,
            help="vLLM: no graphs are captured.",
        ),
    )


def gpu_options(function: Function) -> Function:
    """Add what says on which hardware, and how it is shared out."""
    section = "On which hardware"
    return together(
        option(
            "-g",
            "--gpu",
            "gpu",
            metavar="GPU",
            shell_complete=complete.gpu,
            multiple=True,
            section=section,
            help="a100-80, h100:4, 4xrtx4090, 24gb, 24gib:2, auto (this machine), all. Repeatable.",
        ),
        option(
            "--tp",
            "--tensor-parallel-size",
            "tp",
            type=_COUNT,
            section=section,
            help="Tensor parallel size. [default: the number of GPUs]",
        ),
        option(
            "--pp",
            "--pipeline-parallel-size",
            "pp",
            type=_COUNT,
            default=1,
            show_default=True,
            section=section,
            help="Pipeline parallel size.",
        ),
        option(
            "--utilization",
            "--gpu-memory-utilization",
            "utilization",
            type=Written("share", written.share),
            section=section,
            help="Share of each GPU the engine may take. [default: the engine's, else 0.9]",
        ),
        option(
            "--overhead",
            type=Written("size", written.size),
            section=section,
            help="Activations and runtime on each GPU, such as 2gib. [default: estimated]",
        ),
        option(
            "--offload",
            "offload",
            type=Written("weights=share", written.offload),
            section=section,
            help="Weights left in host memory: weights=20%.",
        ),
        option(
            "--cpu-kv",
            type=Written("size", written.size),
            section=section,
            help="Host memory that may hold cache, of all GPUs together, such as 32gib.",
        ),
    )(function)
