"""What share of a GPU an engine takes, and the step it keeps memory ready for.

vLLM takes a share of the total, SGLang a share of what is free when it starts (its table
leaves the rest to activations and graphs), TensorRT-LLM a share of what weights and
overhead leave; llama.cpp, Ollama and transformers know no share. What is spent on neither
weights nor cache is estimated in `core/overhead.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from hfkv.core.architecture import Architecture
from hfkv.core.engines.llama_cpp import MICRO_BATCH
from hfkv.core.engines.ollama import batch_for
from hfkv.core.engines.sglang_share import mem_fraction_static, prefill_size
from hfkv.core.engines.vllm_options import options_for, parse_version
from hfkv.core.gpus import row_of
from hfkv.core.overhead import (
    GRAPHS_COUNT_FROM,
    EngineStep,
    OverheadPart,
    estimate_overhead,
    loaded_beside_weights,
)
from hfkv.core.record import replace
from hfkv.core.workload import Deployment, GpuChoice
from hfkv.errors import UsageError

__all__ = [
    "EngineStep",
    "OverheadPart",
    "default_share",
    "engine_step",
    "engine_steps",
    "estimate_overhead",
    "loaded_beside_weights",
    "room",
    "utilization",
]

_MIB = 2**20
_GIB = 2**30

# Shares of the total that engines take when they are not told. llama.cpp, Ollama and
# transformers know no share and may fill the card.
# Source: vLLM 0.19 and 0.20, config/cache.py, `gpu_memory_utilization`; TensorRT-LLM,
# `free_gpu_memory_fraction`.
_UTILIZATION = {
    "vllm": Fraction(92, 100),
    "llama.cpp": Fraction(1),
    "ollama": Fraction(1),
    "transformers": Fraction(1),
}
_USUAL_UTILIZATION = Fraction(90, 100)

# Tokens an engine computes in one step (chunked prefill, micro-batch) by default.
_BATCHED_TOKENS = {"trtllm": 8192, "llama.cpp": MICRO_BATCH}
_USUAL_BATCHED_TOKENS = 2048
_MAX_NUM_SEQS = 1024


def utilization(
    deployment: Deployment, engine: str, *, default: Fraction | None = None
) -> Fraction:
    """Return the share of a GPU that may be taken: stated, else `default`, else the usual one.

    Raises UsageError for a share that is not one.
    """
    share = deployment.utilization
    if share is None:
        if default is not None:
            return default
        if engine == "vllm" and parse_version(deployment.engine_version) < GRAPHS_COUNT_FROM:
            return _USUAL_UTILIZATION
        return _UTILIZATION.get(engine, _USUAL_UTILIZATION)
    if not 0 < share <= 1:
        raise UsageError(
            f"--utilization {float(share):g} is not a share of a GPU",
            hint="it is above 0 and at most 1, for example 0.9",
            code="utilization",
        )
    return share


def default_share(
    architecture: Architecture,
    deployment: Deployment,
    engine: str,
    gpu: GpuChoice,
    *,
    tp: int,
    pp: int,
) -> Fraction | None:
    """Return the share that depends on the GPU and the model (SGLang's), None for others."""
    if engine != "sglang":
        return None
    return mem_fraction_static(
        _listed(gpu),
        tp=tp,
        pp=pp,
        latent=architecture.attention == "MLA",
        chunk=deployment.max_num_batched_tokens,
        seqs=deployment.max_num_seqs,
        towers=architecture.text_model_type != architecture.model_type,
    )


def _listed(gpu: GpuChoice) -> int:
    """Return the MiB that nvidia-smi lists: seen, else what the framework sees and the gap.

    The gap is 450 MiB on small cards, 600 MiB up to 96 GiB and 0.4 % above: 37 cards of which
    both totals were seen differ by at most 330 MiB from that.
    """
    row = row_of(gpu.slug)
    if row is not None and row.driver_bytes is not None:
        return row.driver_bytes // _MIB
    size = gpu.memory_bytes
    if gpu.memory_source == "framework total":
        size += 450 * _MIB if size <= 24 * _GIB else max(600 * _MIB, size // 250)
    return size // _MIB


def engine_step(
    deployment: Deployment,
    engine: str,
    gpu: GpuChoice,
    sequences: int,
    *,
    tokens: int,
    whole_prompts: bool = False,
) -> EngineStep:
    """Return the step an engine is started for: `tokens` of context, and so many sequences."""
    return engine_steps(deployment, engine, gpu, whole_prompts=whole_prompts)(tokens, sequences)


def engine_steps(
    deployment: Deployment, engine: str, gpu: GpuChoice, *, whole_prompts: bool = False
) -> Callable[[int, int], EngineStep]:
    """Return the steps an engine is started for, by context and sequences: stated, else default.

    vLLM's server defaults depend on the device's memory and name, and on each other; other
    engines are taken to be started for the sequences that were asked for. vLLM computes all
    of a context at once where it takes `whole_prompts`.
    """
    if engine == "vllm":
        options = options_for(replace(deployment, gpus=(gpu,)))

        def derived(tokens: int, _sequences: int) -> EngineStep:
            batched, seqs = options.step(tokens, whole_prompts=whole_prompts)
            return EngineStep(batched_tokens=batched, max_num_seqs=seqs)

        return derived

    def asked(tokens: int, sequences: int) -> EngineStep:
        if engine == "sglang":
            batched = prefill_size(_listed(gpu))
        elif engine == "ollama":
            batched = batch_for(tokens)
        else:
            batched = _BATCHED_TOKENS.get(engine, _USUAL_BATCHED_TOKENS)
        return EngineStep(
            batched_tokens=deployment.max_num_batched_tokens or batched,
            max_num_seqs=deployment.max_num_seqs or min(sequences, _MAX_NUM_SEQS),
        )

    return asked


def room(engine: str, *, memory: int, share: Fraction, overhead: int, weights: int) -> int:
    """Return the bytes that are left for the cache; negative where it does not fit.

    TensorRT-LLM takes its share of what is left, the others of what there is.
    """
    if engine != "trtllm":
        return math.floor(memory * share) - overhead - weights
    left = memory - overhead - weights
    return math.floor(left * share) if left > 0 else left
