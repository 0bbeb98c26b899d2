"""WeightReport + KVReport + GPU → FitReport: what is left for the cache, and how far it goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hfkv.core.architecture import Architecture
from hfkv.core.balance import Balance, Case, Measure, balance_of, largest_context
from hfkv.core.budget import OverheadPart
from hfkv.core.engines.ollama import context_for
from hfkv.core.engines.registry import engine_named
from hfkv.core.kv import KVReport
from hfkv.core.ways import WayToFit, ways_to_fit
from hfkv.core.weights import WeightReport
from hfkv.core.workload import GpuChoice, Workload

__all__ = ["FitReport", "Measure", "OverheadPart", "WayToFit", "fit"]

_LONGEST = 2**24  # tokens; the search for a context ends here where the model states no maximum
_UNLIMITED = 2**20  # sequences; shown where a sequence takes no memory at all


@dataclass(frozen=True, slots=True, kw_only=True)
class FitReport:
    """One GPU choice: budget = memory x utilization; pool = budget - weights - overhead.

    All byte figures are per GPU, on the fullest one. `max_sequences` at the asked context;
    `max_context` of one sequence, at most the model's maximum, or what was asked where that
    is more; `max_tokens` in the whole pool at the asked context. `short_by_bytes` is 0 when
    it fits. `overhead_parts` is empty when the user stated the overhead. `kv_bytes_per_gpu`
    is what everything that was asked for takes, each sequence at its own length.

    Overhead is an estimate: `verdict` is "fits" where that holds at its highest, "fits
    tightly" where it holds at the likely figure or only at the lowest, else "does not fit";
    "unknown" without weights. `fits` and `short_by_bytes` go by the likely figure. The range
    of the pool also allows for a total above the lowest that was seen of such a card.

    Without known weights `weights_bytes_per_gpu` is None, the pool is what is left before
    weights, and `fits` is None unless the cache alone is too large.
    """

    gpu: str
    name: str
    count: int
    tensor_parallel_size: int
    pipeline_parallel_size: int
    memory_bytes: int
    memory_source: str
    utilization: tuple[int, int]
    budget_bytes: int
    weights_bytes_per_gpu: int | None
    overhead_bytes_per_gpu: int
    overhead_parts: tuple[OverheadPart, ...]
    kv_pool_bytes_per_gpu: int
    kv_bytes_per_sequence_per_gpu: int
    fits: bool | None
    short_by_bytes: int
    max_sequences: int
    max_context: int
    max_tokens: int
    simple_formula_max_sequences: int | None
    ways_to_fit: tuple[WayToFit, ...] = ()
    notes: tuple[str, ...] = ()
    kv_bytes_per_gpu: int = 0
    verdict: str = "unknown"
    overhead_low_bytes: int = 0
    overhead_high_bytes: int = 0
    kv_pool_low_bytes_per_gpu: int = 0
    kv_pool_high_bytes_per_gpu: int = 0


def fit(
    architecture: Architecture,
    weights: WeightReport | None,
    kv: KVReport,
    workload: Workload,
    choice: GpuChoice,
    *,
    measure: Measure,
) -> FitReport:
    """Answer whether the workload fits on `choice`, how much does, and what would help.

    `kv` is the answer for the asked workload; `measure` finds the cache of any other, and is
    asked the same thing many times: a cached one pays. Raises UsageError for a share, an
    overhead or parallel sizes that make no sense.
    """
    case = Case(
        architecture=architecture,
        weights=_loaded(weights, workload.engine) if weights else None,
        workload=workload,
        tokens=kv.tokens,
        sequences=kv.sequences,
        choice=choice,
        measure=measure,
    )
    balance = balance_of(case)
    fits = balance.headroom >= 0
    pool = max(0, balance.room)
    sequences = _max_sequences(pool, balance)
    return FitReport(
        gpu=choice.slug,
        name=choice.name,
        count=choice.count,
        tensor_parallel_size=balance.tp,
        pipeline_parallel_size=balance.pp,
        memory_bytes=choice.memory_bytes,
        memory_source=choice.memory_source,
        utilization=balance.utilization.as_integer_ratio(),
        budget_bytes=balance.budget,
        weights_bytes_per_gpu=balance.weights,
        overhead_bytes_per_gpu=balance.overhead,
        overhead_parts=balance.parts,
        kv_pool_bytes_per_gpu=pool,
        kv_bytes_per_sequence_per_gpu=balance.per_sequence,
        fits=None if fits and balance.weights is None else fits,
        short_by_bytes=max(0, -balance.headroom),
        max_sequences=sequences,
        max_context=_max_context(case, balance),
        max_tokens=(
            pool * kv.tokens // balance.per_sequence
            if balance.per_sequence
            else sequences * kv.tokens
        ),
        simple_formula_max_sequences=_simple_sequences(case, kv, pool, balance),
        ways_to_fit=() if fits else ways_to_fit(case, balance),
        notes=tuple(_notes(case, balance)),
        kv_bytes_per_gpu=balance.needed,
        verdict=_verdict(balance),
        overhead_low_bytes=balance.overhead_low,
        overhead_high_bytes=balance.overhead_high,
        kv_pool_low_bytes_per_gpu=max(0, balance.least_room),
        kv_pool_high_bytes_per_gpu=max(0, balance.most_room),
    )


def _loaded(weights: WeightReport, engine: str) -> int:
    """Return the weights on the GPUs; llama.cpp leaves the input embedding with the host.

    A tied table is in both places. Source: llama.cpp 0c1e57098, src/llama-model.cpp.
    """
    table = weights.by_role.get("embedding")
    if table is None or weights.tied_embeddings or not engine_named(engine).embeds_on_host:
        return weights.loaded_bytes
    return weights.loaded_bytes - table.bytes


def _verdict(balance: Balance) -> str:
    if balance.most_room < balance.needed:
        return "does not fit"
    if balance.weights is None:
        return "unknown"
    return "fits" if balance.least_room >= balance.needed else "fits tightly"


def _max_sequences(pool: int, balance: Balance) -> int:
    if balance.per_sequence:
        return pool // balance.per_sequence
    return _UNLIMITED if balance.room >= 0 else 0


def _max_context(case: Case, balance: Balance) -> int:
    stated = case.architecture.max_context
    limit = _LONGEST if stated is None else max(stated, case.tokens)
    return largest_context(case, balance, sequences=1, limit=limit)


def _simple_sequences(case: Case, kv: KVReport, pool: int, balance: Balance) -> int | None:
    """Return how many sequences 2·L·Hkv·D·T·B promises, on one rank of the same plan."""
    total, lengths = kv.simple_formula.bytes, case.workload.seq_lens
    if not total:
        return None
    one = total * kv.tokens // sum(lengths) if lengths else total // kv.sequences
    heads = case.architecture.num_key_value_heads or balance.tp
    layers = max(1, case.architecture.num_hidden_layers or 1)
    stage = -(-layers // balance.pp)
    rank = -(-one * max(1, heads // balance.tp) * stage // (heads * layers))
    return pool // rank if rank else None


def _notes(case: Case, balance: Balance) -> Iterator[str]:
    """Say which figures are weaker than they look, and what the engine would do by itself."""
    choice, engine = case.choice, case.workload.engine
    if balance.weights is None:
        yield "the weights are not known: the pool is what is left before them"
    if balance.tp * balance.pp > 1 and balance.weights:
        yield "weights are taken to be split evenly over the GPUs"
    if choice.memory_source not in ("framework total", "as given"):
        yield f"memory is the {choice.memory_source}: the framework's own total was not seen"
    if balance.per_sequence == 0:
        yield "a sequence takes no cache: memory does not limit their number"
    if engine == "trtllm":
        yield "TensorRT-LLM takes its share of what weights and overhead leave, not of the total"
    if engine == "ollama":
        served = context_for(choice.memory_bytes * choice.count)
        yield f"without num_ctx Ollama serves {served:,} tokens on so much memory"
