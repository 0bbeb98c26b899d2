"""What share of a GPU an engine takes, and what it spends on neither weights nor cache.

The share is an engine's documented default. The spending is an estimate: its figures are
medians of published start-up logs, most of them of vLLM, and it is kept in parts so that a
person can disagree with one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hfkv.core.architecture import Architecture
from hfkv.core.engines.vllm_options import batch_defaults, parse_version
from hfkv.core.workload import Deployment, GpuChoice
from hfkv.errors import UsageError

__all__ = ["EngineStep", "OverheadPart", "engine_step", "estimate_overhead", "utilization"]

_MIB = 2**20

# Shares of the total that engines take when they are not told. llama.cpp, Ollama and
# transformers know no share and may fill the card.
# Source: vLLM 0.19 and 0.20, config/cache.py, `gpu_memory_utilization`.
_UTILIZATION = {
    "vllm": Fraction(92, 100),
    "llama.cpp": Fraction(1),
    "ollama": Fraction(1),
    "transformers": Fraction(1),
}
_USUAL_UTILIZATION = Fraction(90, 100)
_VLLM_CHANGED = (0, 20)  # the share grew, and graphs came out of it

# Tokens an engine computes in one step (chunked prefill, micro-batch) by default.
_BATCHED_TOKENS = {"sglang": 8192, "trtllm": 8192, "llama.cpp": 512, "ollama": 512}
_USUAL_BATCHED_TOKENS = 2048
_MAX_NUM_SEQS = 1024

_CAPTURES_GRAPHS = ("none", "vllm", "sglang", "trtllm")


@dataclass(frozen=True, slots=True, kw_only=True)
class OverheadPart:
    """One estimated part of what is neither weights nor cache, in bytes per GPU."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStep:
    """What an engine keeps memory ready for: tokens computed and sequences sampled at once."""

    batched_tokens: int
    max_num_seqs: int


def utilization(deployment: Deployment, engine: str) -> Fraction:
    """Return the share of a GPU that may be taken: stated, else the engine's default.

    Raises UsageError for a share that is not one.
    """
    share = deployment.utilization
    if share is None:
        if engine == "vllm" and not _vllm_changed(deployment.engine_version):
            return _USUAL_UTILIZATION
        return _UTILIZATION.get(engine, _USUAL_UTILIZATION)
    if not 0 < share <= 1:
        raise UsageError(
            f"--utilization {float(share):g} is not a share of a GPU",
            hint="it is above 0 and at most 1, for example 0.9",
            code="utilization",
        )
    return share


def engine_step(deployment: Deployment, engine: str, gpu: GpuChoice, sequences: int) -> EngineStep:
    """Return the step an engine is started for: stated, else its default.

    vLLM's server defaults depend on the device's memory and name; other engines are taken
    to be started for the sequences that were asked for.
    Source: vLLM 0.32, engine/arg_utils.py, `get_batch_defaults`.
    """
    if engine == "vllm":
        tokens, seqs = batch_defaults(gpu)
    else:
        tokens = _BATCHED_TOKENS.get(engine, _USUAL_BATCHED_TOKENS)
        seqs = min(sequences, _MAX_NUM_SEQS)
    return EngineStep(
        batched_tokens=deployment.max_num_batched_tokens or tokens,
        max_num_seqs=deployment.max_num_seqs or seqs,
    )


def estimate_overhead(
    architecture: Architecture,
    step: EngineStep,
    gpu: GpuChoice,
    *,
    engine: str,
    version: str | None,
    budget: int,
    ranks: int,
) -> tuple[OverheadPart, ...]:
    """Estimate what one GPU spends besides weights and cache, part by part.

    `budget` is the engine's share in bytes. Parts that come to nothing are left out.
    """
    # The device's context is made before the share is counted, and normally fits beside it.
    context = max(0, 512 * _MIB - (gpu.memory_bytes - budget))
    parts = (
        OverheadPart(name="device context", bytes=context),
        OverheadPart(name="libraries", bytes=256 * _MIB),
        OverheadPart(name="communication", bytes=_communication(gpu.memory_bytes, ranks)),
        OverheadPart(name="activation peak", bytes=_activation_peak(architecture, step)),
        OverheadPart(name="captured graphs", bytes=_graphs(engine, version, step)),
    )
    return tuple(part for part in parts if part.bytes)


def _activation_peak(architecture: Architecture, step: EngineStep) -> int:
    """Return the larger of one layer's and the sampler's working memory, and 154 MiB.

    A layer holds about twelve hidden-sized 16-bit vectors per token; the sampler 14.5 bytes
    per vocabulary entry and sequence (15 models under vLLM 0.19, within 0.2 GiB). They are
    not alive at the same time.
    """
    layer = step.batched_tokens * (architecture.hidden_size or 0) * 12 * 2
    sampler = step.max_num_seqs * (architecture.vocab_size or 0) * 29 // 2
    return 154 * _MIB + max(layer, sampler)


def _communication(memory: int, ranks: int) -> int:
    """Return the buffers between GPUs: 1.8 GiB on an H100, about 0.3 GiB on a T4."""
    return min(memory // 44, 1843 * _MIB) if ranks > 1 else 0


def _graphs(engine: str, version: str | None, step: EngineStep) -> int:
    """Return the pool of captured graphs; it grows with the batch sizes that are captured.

    Before 0.20 vLLM took it from outside its share.
    """
    if engine not in _CAPTURES_GRAPHS or (engine == "vllm" and not _vllm_changed(version)):
        return 0
    return (512 if step.max_num_seqs <= 256 else 922) * _MIB


def _vllm_changed(version: str | None) -> bool:
    return parse_version(version) >= _VLLM_CHANGED
