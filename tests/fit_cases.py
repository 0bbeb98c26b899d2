"""What the tests of the fit share: Llama-3.1-8B by hand, and a question about it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hfkv.core.architecture import Architecture
from hfkv.core.fit import FitReport, Measure, fit
from hfkv.core.gpus import parse_gpu
from hfkv.core.kv import KVReport, PerGpu
from hfkv.core.readings import Confidence
from hfkv.core.simple import SimpleFormula
from hfkv.core.stores import Grows, Layer, LayerKind
from hfkv.core.weights import WeightReport
from hfkv.core.workload import Deployment, Workload

GIB = 2**30
KIB = 2**10

# Llama-3.1-8B as its config.json states it; 8,030,261,248 bf16 parameters.
LLAMA_LAYER = Layer(kind=LayerKind.FULL, heads=32, stores=(Grows(heads=8, key=128, value=128),))
LLAMA = Architecture(
    class_name="LlamaForCausalLM",
    model_type="llama",
    family="llama",
    kind="decoder",
    layers=(LLAMA_LAYER,) * 32,
    num_hidden_layers=32,
    hidden_size=4096,
    vocab_size=128256,
    max_context=131072,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    v_head_dim=128,
    sliding_window=None,
    attention="GQA",
    confidence=Confidence.DECLARED,
)
LLAMA_WEIGHTS = 16_060_522_496


def llama_cache(workload: Workload, *, tokens: int, tp: int, pp: int) -> int:
    """32 layers x 8 KV heads x 2 x 128 elements: 128 KiB per token in 16 bits."""
    element = 1 if workload.kv_dtype == "fp8" else 2
    return tokens * -(-32 // pp) * max(1, 8 // tp) * 256 * element


def per_token(size: int) -> Measure:
    """Return a cache of `size` bytes per token that nothing splits."""

    def measure(workload: Workload, *, tokens: int, tp: int, pp: int) -> int:
        del tp, pp
        return tokens * size // (2 if workload.kv_dtype == "fp8" else 1)

    return measure


def weights_of(size: int) -> WeightReport:
    """Return weights of `size` bytes, all of them loaded."""
    return WeightReport(
        bytes=size,
        parameters=size // 2,
        stored_elements=size // 2,
        tensors=1,
        source="safetensors-headers",
        loaded_bytes=size,
    )


def cache_of(tokens: int, sequences: int = 1, simple: int | None = None) -> KVReport:
    """Return the figures of a cache report that the fit reads; the others are nothing."""
    return KVReport(
        tokens=tokens,
        sequences=sequences,
        dtype="bfloat16",
        dtype_source="config.json",
        engine="none",
        bytes=0,
        bytes_per_sequence=0,
        bytes_per_token=0,
        fixed_bytes_per_sequence=0,
        components=(),
        simple_formula=SimpleFormula(applies=simple is not None, bytes=simple),
        per_gpu=PerGpu(
            ideal_bytes_per_sequence=0,
            admission_bytes_per_sequence=0,
            steady_bytes_per_sequence=0,
        ),
    )


def ask(
    gpu: str,
    *,
    tokens: int = 4096,
    sequences: int = 1,
    weights: int | None = 16 * GIB,
    measure: Measure = llama_cache,
    architecture: Architecture = LLAMA,
    workload: Workload | None = None,
    simple: int | None = None,
    utilization: Fraction | None = Fraction(1),
    overhead: int | None = 2 * GIB,
    tp: int | None = None,
    pp: int = 1,
    offloaded: Fraction = Fraction(0),
    host_kv: int = 0,
) -> FitReport:
    """Fit a model that takes the whole card and 2 GiB besides, unless told otherwise."""
    deployment = Deployment(
        utilization=utilization,
        overhead_bytes=overhead,
        tensor_parallel_size=tp,
        pipeline_parallel_size=pp,
        offloaded_weights=offloaded,
        host_kv_bytes=host_kv,
    )
    (choice,) = parse_gpu(gpu)
    return fit(
        architecture,
        None if weights is None else weights_of(weights),
        cache_of(tokens, sequences, simple),
        replace(workload or Workload(), deployment=deployment),
        choice,
        measure=measure,
    )
