"""WeightReport + KVReport + GPU → FitReport: what is left for the cache, and how far it goes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Protocol

from hfkv.core.answers import Answers, answers_of, longest_context, simple_sequences
from hfkv.core.architecture import Architecture
from hfkv.core.balance import Balance, Case, Ranks, balance_of
from hfkv.core.budget import EngineStep, OverheadPart, engine_step
from hfkv.core.counts import counted
from hfkv.core.engines.engine import Rank, ranks_of
from hfkv.core.engines.mxfp4 import UNPADDED
from hfkv.core.engines.ollama import context_for
from hfkv.core.engines.registry import engine_named
from hfkv.core.engines.vllm_options import whole_prompts
from hfkv.core.kv import KVReport
from hfkv.core.plans import Plan, plans_of
from hfkv.core.portions import POSITIONS
from hfkv.core.record import dataclass, replace
from hfkv.core.shares import Shares
from hfkv.core.speed import SpeedCeiling
from hfkv.core.ways import Requantize, WayToFit, ways_to_fit
from hfkv.core.weights import WeightReport
from hfkv.core.workload import GpuChoice, Workload

__all__ = ["FitReport", "Measure", "OverheadPart", "WayToFit", "fit", "on_gpus", "shares_of"]


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

    `kv_bytes_per_sequence_per_gpu` is what bounds the number of sequences: what the engine
    reserves, not what decoding holds. Host memory has `host_weights_bytes` and
    `host_kv_bytes`, of all GPUs together; `kv_bytes_per_gpu` is without them. A common
    prefix is kept once: `shared_kv_bytes_per_gpu`. `plans` are the ways to share several
    GPUs, `commands` what to type for the engine, `speed` a bound that is never reached.
    `free_bytes` of the memory are not in use now, where that was seen. `step` is what the
    engine is started for: as stated, else its default on this GPU.

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
    shared_kv_bytes_per_gpu: int = 0
    host_weights_bytes: int = 0
    host_kv_bytes: int = 0
    answers: Answers | None = None
    plans: tuple[Plan, ...] = ()
    speed: SpeedCeiling | None = None
    commands: tuple[str, ...] = ()
    free_bytes: int | None = None
    step: EngineStep | None = None


class Measure(Protocol):
    """How the cache is measured where no more is known of it than its size."""

    def __call__(self, workload: Workload, *, tokens: int, tp: int, pp: int) -> int:
        """Return the bytes that one sequence of `tokens` takes on the most loaded rank.

        It heeds `workload.kv_dtype`, and never returns less for more tokens.
        """


def sized_by(measure: Measure) -> Ranks:
    """Return ranks on which a sequence needs, reserves and holds what `measure` says."""

    def rank(workload: Workload) -> Rank:
        tp, pp = ranks_of(workload.deployment)

        def size(tokens: int) -> int:
            return measure(workload, tokens=tokens, tp=tp, pp=pp)

        return Rank(ideal=size, admission=size, reserved=size, steady=size)

    return rank


def fit(
    architecture: Architecture,
    weights: WeightReport | None,
    kv: KVReport,
    workload: Workload,
    choice: GpuChoice,
    *,
    measure: Measure | None = None,
    ranks: Ranks | None = None,
    requantize: Callable[[str], WeightReport | None] | None = None,
    shares: Shares | None = None,
) -> FitReport:
    """Answer whether the workload fits on `choice`, how much does, and what would help.

    `kv` is the answer for the asked workload; `ranks` (or a plain `measure`) answer for any
    other, and are asked the same thing many times: cached ones pay. `requantize` estimates
    all weights in another format, and `shares` are `shares_of` the weights, for
    whoever asks about many GPUs. Raises UsageError for a share, an overhead
    or parallel sizes that make no sense.
    """
    if ranks is None:
        assert measure is not None, "nothing says how large the cache is"
        ranks = sized_by(measure)
    case = Case(
        architecture=architecture,
        weights=on_gpus(weights, workload) if weights else None,
        workload=workload,
        tokens=kv.tokens,
        sequences=kv.sequences,
        choice=choice,
        ranks=ranks,
        shares=shares or (shares_of(weights, architecture, workload) if weights else None),
    )
    balance = balance_of(case)
    report = replace(
        _report(case, kv, balance),
        host_weights_bytes=_held(weights, workload.engine) - (case.weights or 0) if weights else 0,
        plans=plans_of(case, _cut_attention(weights) if weights else None),
    )
    if balance.headroom >= 0:
        return report
    smaller = _requantized(architecture, workload, requantize) if weights else None
    return replace(report, ways_to_fit=ways_to_fit(case, balance, smaller))


def _report(case: Case, kv: KVReport, balance: Balance) -> FitReport:
    fits = balance.headroom >= 0
    pool, choice = max(0, balance.room), case.choice
    sequences = balance.most(case.tokens)
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
        max_context=longest_context(case, balance),
        max_tokens=(
            pool * kv.tokens // balance.per_sequence
            if balance.per_sequence
            else sequences * kv.tokens
        ),
        simple_formula_max_sequences=simple_sequences(case, kv, balance),
        notes=tuple(_notes(case, balance)),
        kv_bytes_per_gpu=balance.needed - balance.moved,
        verdict=_verdict(balance),
        overhead_low_bytes=balance.overhead_low,
        overhead_high_bytes=balance.overhead_high,
        kv_pool_low_bytes_per_gpu=max(0, balance.least_room),
        kv_pool_high_bytes_per_gpu=max(0, balance.most_room),
        shared_kv_bytes_per_gpu=balance.rank.shared(balance.prefix, case.tokens),
        host_kv_bytes=balance.moved * balance.tp * balance.pp,
        answers=answers_of(case, kv, balance),
        free_bytes=choice.free_bytes,
        step=engine_step(
            case.workload.deployment,
            case.workload.engine,
            choice,
            case.sequences,
            tokens=case.tokens,
            whole_prompts=whole_prompts(case.architecture),
        ),
    )


def on_gpus(report: WeightReport, workload: Workload) -> int:
    """Return the bytes on all GPUs: not what is offloaded, but what the engine builds as well.

    llama.cpp leaves the input embedding with the host; a tied table is in both places.
    Source: llama.cpp 0c1e57098, src/llama-model.cpp.
    """
    weights = report.loaded_bytes
    if not report.tied_embeddings and engine_named(workload.engine).embeds_on_host:
        weights -= _embedding(report)
    offloaded = math.floor(weights * workload.deployment.offloaded_weights)
    return weights - offloaded + _tables(report)


def _cut_attention(report: WeightReport) -> int | None:
    """Return the attention weights that tensor parallelism cuts: what is copied is whole."""
    if not report.portions:
        known = report.by_role.get("attention")
        return known.bytes if known else None
    return sum(p.bytes for p in report.portions if p.role == "attention" and p.cut != "copied")


def shares_of(
    report: WeightReport, architecture: Architecture, workload: Workload
) -> Shares | None:
    """Return what of the weights on the GPUs is where, None where no tensor was seen."""
    engine, portions = engine_named(workload.engine), report.portions
    if engine.embeds_on_host and report.tied_embeddings:  # the table is the output head
        portions = tuple(replace(p, stage="last") if p.role == "embedding" else p for p in portions)
    elif engine.embeds_on_host:
        portions = tuple(p for p in portions if p.role != "embedding")
    if not portions:
        return None
    return Shares(
        portions,
        architecture,
        padding=engine.vocabulary_padding,
        waste=engine.waste,
        everywhere=engine.on_every_stage(architecture, workload.deployment.engine_version),
    )


def _held(report: WeightReport, engine: str) -> int:
    """Return the weights in all memories; a tied table of llama.cpp is held twice."""
    twice = report.tied_embeddings and engine_named(engine).embeds_on_host
    return report.loaded_bytes + _tables(report) + (_embedding(report) if twice else 0)


def _embedding(report: WeightReport) -> int:
    """Return the bytes of the input embedding as it is loaded."""
    if not report.portions:
        known = report.by_role.get("embedding")
        return known.bytes if known else 0
    return sum(p.bytes for p in report.portions if p.role == "embedding")


def _tables(report: WeightReport) -> int:
    """Return the bytes of what the engine builds beside the weights."""
    return sum(p.bytes for p in report.portions if p.role == POSITIONS)


def _requantized(
    architecture: Architecture,
    workload: Workload,
    requantize: Callable[[str], WeightReport | None] | None,
) -> Requantize | None:
    """Return estimates of what would be on the GPUs, and where, from those of all weights."""
    if requantize is None:
        return None

    def smaller(name: str) -> tuple[int, Shares | None] | None:
        found = requantize(name)
        if found is None:
            return None
        return on_gpus(found, workload), shares_of(found, architecture, workload)

    return smaller


def _verdict(balance: Balance) -> str:
    if balance.headroom_in(balance.most_room) < 0:
        return "does not fit"
    if balance.weights is None:
        return "unknown"
    return "fits" if balance.headroom_in(balance.least_room) >= 0 else "fits tightly"


def _weight_notes(shares: Shares | None, balance: Balance) -> Iterator[str]:
    if balance.weights is None:
        yield "the weights are not known: the pool is what is left before them"
    if balance.tp * balance.pp > 1 and balance.weights and shares is None:
        yield "weights are taken to be split evenly over the GPUs"
    if balance.kernel is not UNPADDED and shares and shares.mxfp4_bytes:
        guess = "" if balance.kernel.certain else ", an estimate"
        yield f"mxfp4 experts are counted as {balance.kernel.name} lays them out{guess}"


def _notes(case: Case, balance: Balance) -> Iterator[str]:
    """Say which figures are weaker than they look, and what the engine would do by itself."""
    choice, engine = case.choice, case.workload.engine
    yield from _weight_notes(case.shares, balance)
    if choice.memory_source not in ("framework total", "as given"):
        yield f"memory is the {choice.memory_source}: the framework's own total was not seen"
    if balance.per_sequence == 0:
        yield "a sequence takes no cache: memory does not limit their number"
    if balance.rank.admission(case.tokens) < balance.per_sequence:
        yield "the start-up check counts less than one sequence may take: it may pass in vain"
    if balance.moved and balance.pages:
        running = replace(balance, moves=0).most(case.tokens)
        yield f"{counted(running, 'sequence')} can run at once: the others wait in host memory"
    if balance.moves and engine_named(engine).splits_layers:
        yield "llama.cpp moves all of a cache (--no-kv-offload) or a layer with its own, no part"
    if engine == "trtllm":
        yield "TensorRT-LLM takes its share of what weights and overhead leave, not of the total"
    if engine == "ollama":
        served = context_for(choice.memory_bytes * choice.count)
        yield f"without num_ctx Ollama serves {counted(served, 'token')} on so much memory"
