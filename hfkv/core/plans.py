"""The ways to share one model between several GPUs, and which of them to take."""

from __future__ import annotations

from collections.abc import Iterator

from hfkv.core.balance import Balance, Case, balance_of
from hfkv.core.counts import counted
from hfkv.core.engines.registry import engine_named
from hfkv.core.engines.titles import engine_title
from hfkv.core.parallel import tensor_parallel_sizes
from hfkv.core.record import dataclass, replace
from hfkv.core.workload import Workload
from hfkv.errors import HfkvError

__all__ = ["AttentionCopies", "Plan", "plans_of"]

# GPUs of one machine; tensor parallelism exchanges every layer's results between its ranks.
_NODE = 8
# Engines that can run attention data-parallel inside a tensor-parallel group.
_SPREADS_ATTENTION = frozenset({"none", "vllm", "sglang", "trtllm"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCopies:
    """What data-parallel attention would make of a plan that copies latent caches.

    Each GPU then keeps only the sequences it serves, and all attention weights:
    `extra_weights_bytes_per_gpu` more, None where their size is not known.
    """

    max_sequences: int
    extra_weights_bytes_per_gpu: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One way to share the model: bytes are on the fullest GPU, for the asked length.

    `copied_kv_bytes_per_gpu` is what a sequence takes there beyond an even split, because
    heads or latents are copied. One plan is `recommended`, for a `reason`.
    """

    tensor_parallel_size: int
    pipeline_parallel_size: int
    weights_bytes_per_gpu: int | None
    kv_bytes_per_sequence_per_gpu: int
    copied_kv_bytes_per_gpu: int
    fits: bool | None
    short_by_bytes: int
    max_sequences: int
    data_parallel_attention: AttentionCopies | None = None
    recommended: bool = False
    reason: str | None = None


def plans_of(case: Case, attention: int | None = None) -> tuple[Plan, ...]:
    """Return every valid plan for the GPUs of a choice, the widest tensor parallelism first.

    `attention` are the bytes of attention weights that ranks share, where they are known.
    A single GPU leaves no choice, and no plans.
    """
    if case.choice.count == 1:
        return ()
    plans = [plan for tp, pp in _sizes(case) if (plan := _plan(case, attention, tp, pp))]
    best = _best(plans)
    return tuple(
        replace(plan, recommended=True, reason=_reason(case, plan, plans)) if plan is best else plan
        for plan in plans
    )


def _sizes(case: Case) -> Iterator[tuple[int, int]]:
    """Yield tensor and pipeline parallel sizes that use every GPU."""
    count, layers = case.choice.count, max(1, len(case.architecture.layers))
    valid = tensor_parallel_sizes(case.architecture)
    if engine_named(case.workload.engine).splits_layers:
        valid = (1,)
    for tp in range(count, 0, -1):
        if count % tp == 0 and count // tp <= layers and (not valid or tp in valid):
            yield tp, count // tp


def _plan(case: Case, attention: int | None, tp: int, pp: int) -> Plan | None:
    """Return one plan, None where the engine refuses it."""
    try:
        split, whole = (
            balance_of(replace(case, workload=_shared(case.workload, tp, pp))),
            case.ranks(_shared(case.workload, 1, pp, case)),
        )
    except HfkvError:
        return None
    needed = split.rank.ideal(case.tokens)
    copied = needed - -(-whole.ideal(case.tokens) // tp)
    fits = split.headroom >= 0
    return Plan(
        tensor_parallel_size=tp,
        pipeline_parallel_size=pp,
        weights_bytes_per_gpu=split.weights,
        kv_bytes_per_sequence_per_gpu=split.per_sequence,
        copied_kv_bytes_per_gpu=max(0, copied // split.beams),
        fits=None if fits and split.weights is None else fits,
        short_by_bytes=max(0, -split.headroom),
        max_sequences=split.most(case.tokens),
        data_parallel_attention=_spread(case, replace(split, rank=whole), attention)
        if tp > 1
        else None,
    )


def _shared(workload: Workload, tp: int, pp: int, case: Case | None = None) -> Workload:
    deployment = replace(workload.deployment, tensor_parallel_size=tp, pipeline_parallel_size=pp)
    if case is not None:
        deployment = replace(deployment, gpus=(case.choice,))
    return replace(workload, deployment=deployment)


def _spread(case: Case, balance: Balance, attention: int | None) -> AttentionCopies | None:
    """Return what data-parallel attention would hold; `balance` has the rank of one copy."""
    if case.architecture.attention != "MLA" or case.workload.engine not in _SPREADS_ATTENTION:
        return None
    extra = None
    if attention is not None:
        extra = -(-attention * (balance.tp - 1) // (balance.tp * balance.pp))
    heavier = replace(balance, weights=(balance.weights or 0) + (extra or 0))
    return AttentionCopies(
        max_sequences=balance.tp * heavier.most(case.tokens),
        extra_weights_bytes_per_gpu=extra,
    )


def _best(plans: list[Plan]) -> Plan | None:
    """Return the plan to take: one that fits, copies nothing it need not, and is wide.

    Wide tensor parallelism puts every GPU to work on each token, within one machine.
    """
    unavoidable = _always_copied(plans)

    def rank(plan: Plan) -> tuple[bool, int, bool, bool, int]:
        return (
            plan.fits is not False,
            -plan.short_by_bytes,
            unavoidable or not plan.copied_kv_bytes_per_gpu,
            plan.tensor_parallel_size <= _NODE,
            plan.tensor_parallel_size,
        )

    return max(plans, key=rank, default=None)


def _always_copied(plans: list[Plan]) -> bool:
    wide = [plan for plan in plans if plan.tensor_parallel_size > 1]
    return all(plan.copied_kv_bytes_per_gpu for plan in wide)


def _reason(case: Case, plan: Plan, plans: list[Plan]) -> str:
    tp, pp = plan.tensor_parallel_size, plan.pipeline_parallel_size
    if plan.fits is False:
        return "no plan fits" + ("; this one lacks the least" if len(plans) > 1 else "")
    if engine_named(case.workload.engine).splits_layers:
        return f"{engine_title(case.workload.engine)} shares the layers out to the GPUs"
    if len(plans) == 1:
        return "the only plan that the heads and layers allow"
    spread = plan.data_parallel_attention
    if spread is not None:
        return (
            f"each of {tp} GPUs keeps the whole latent cache of "
            f"{counted(plan.max_sequences, 'sequence')}; "
            f"data-parallel attention would hold {spread.max_sequences:,}"
        )
    if plan.copied_kv_bytes_per_gpu:
        return f"every GPU works on each token; KV heads are fewer than {tp} GPUs and are copied"
    if tp == 1:
        return f"{pp} stages share the layers: a split by heads would not fit or not be even"
    if pp > 1:
        return f"tensor parallel {tp} is the widest that fits in one machine and copies no KV head"
    return "every GPU works on each token, and nothing of the cache is copied"
