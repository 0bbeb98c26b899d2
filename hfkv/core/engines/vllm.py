"""vLLM: what one sequence needs, what start-up reserves for it, what decoding holds.

Three figures that its users confuse. *Ideal* is what the model needs at a length.
*Admission* is what the start-up check, the logged capacity and the logged concurrency
count: whole blocks, windows with the tokens in flight, padding layers, two or three
states. *Steady* is what a decoding sequence holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import starmap

from hfkv.core.architecture import Architecture
from hfkv.core.dtypes import KV_DTYPES, DType
from hfkv.core.engines.engine import Engine, Formats, PerGpu, Rank, Stage, StartUp, text_type
from hfkv.core.engines.torch_blocks import torch_waste
from hfkv.core.engines.vllm_admission import (
    VllmAdmission,
    VllmCapacity,
    VllmStage,
    admission,
    capacity,
    demands,
    groups,
    held_stages,
    null_block,
    pool_block,
    resolved,
    specs,
)
from hfkv.core.engines.vllm_groups import Group
from hfkv.core.engines.vllm_mxfp4 import mxfp4_kernel
from hfkv.core.engines.vllm_options import (
    VllmOptions,
    options_for,
    parse_version,
)
from hfkv.core.engines.vllm_refusals import refuse_step
from hfkv.core.engines.vllm_specs import FULL_KINDS, Demand, Spec
from hfkv.core.engines.vllm_stores import CACHE_DTYPES, adapt, pack
from hfkv.core.engines.vllm_tables import on_every_stage
from hfkv.core.gpus import BLACKWELL, capability
from hfkv.core.workload import Deployment, Workload

__all__ = [
    "VLLM",
    "VllmAdmission",
    "VllmCapacity",
    "VllmStage",
    "admission",
    "capacity",
    "groups",
    "specs",
]

_NO_MAXIMUM = 2048  # tokens
_GLM_IN_FP8 = (0, 32)
_YARN_IS_SCALED = (0, 30)
_FLOAT32_POSITIONS = frozenset(
    {"gpt_oss", "minimax", "minimax_text_01", "minimax_m1", "bailing_moe_linear"}
)


def _default_context(arch: Architecture, deployment: Deployment) -> int | None:
    """Return the length that is served where none is given, None for the model's maximum.

    From 0.11 on LongRoPE starts at the length it was trained at; a config without a maximum
    gets 2,048; a factor multiplies the maximum, and up to 0.28 YaRN's the length it began with.
    Source: vLLM 0.28 and 0.32 config/model.py, _get_and_verify_max_len.
    """
    version = parse_version(deployment.engine_version)
    if arch.max_context is None:
        return _NO_MAXIMUM
    if arch.original_max_context is not None and version >= (0, 11):
        return arch.original_max_context
    yarn = arch.stretch.yarn_tokens if version < _YARN_IS_SCALED else None
    return yarn or arch.stretch.tokens


def _served(arch: Architecture, workload: Workload) -> int:
    """Return the length that vLLM is started for."""
    asked = max(workload.seq_lens, default=0) or workload.context
    own = _default_context(arch, workload.deployment) or arch.max_context
    return asked or own or _NO_MAXIMUM


def _default_cache(arch: Architecture, deployment: Deployment) -> str | None:
    """Return fp8 for GLM-5 on datacenter Blackwell, None for the model's own format.

    Source: vLLM 0.32 model_executor/models/config.py, GlmMoeDsaForCausalLM; 0.30 has no such rule.
    """
    blackwell = deployment.gpus and capability(deployment.gpus[0]) == BLACKWELL
    released = parse_version(deployment.engine_version) >= _GLM_IN_FP8
    return "fp8_e4m3" if text_type(arch) == "glm_moe_dsa" and blackwell and released else None


def _positions_in(arch: Architecture, compute: DType) -> DType:
    """Return float32 for the models whose class asks for it, else the compute format.

    Source: vLLM 0.19 and 0.32, models/gpt_oss.py; 0.19 models/minimax_text_01.py and
    bailing_moe_linear.py (`get_rope(..., dtype=torch.float32)`).
    """
    return KV_DTYPES["float32"] if text_type(arch) in _FLOAT32_POSITIONS else compute


def _rank(arch: Architecture, workload: Workload, formats: Formats) -> Rank:
    """Answer for one sequence on the fullest rank of a deployment.

    While decoding nothing is in flight but the token that is computed: a window holds the
    blocks of its last W-1 tokens, cross-attention those of its source. The start-up check
    of 0.14 to 0.19 admits more than there is room for.
    """
    options = options_for(workload.deployment)
    source = arch.source_tokens if workload.source_tokens is None else workload.source_tokens
    plan = admission(arch, formats, options, max_model_len=1, source_tokens=source)
    refuse_step(arch, workload.deployment, options, _served(arch, workload))
    demand, pool = demands(arch, options), pool_block(plan)
    thin = replace(plan, groups=tuple(Group(specs=_distinct(group)) for group in plan.groups))
    checked, all_groups = _counted(thin.checked), _counted(thin.groups)
    needs = _needs(plan, arch, options, source or 0)

    def resting(tokens: int) -> Demand:
        return replace(demand(tokens), in_flight=0, encoder_tokens=source or 0)

    def started(tokens: int, available: int) -> StartUp:
        found = capacity(replace(thin, max_model_len=tokens, demand=demand(tokens)), available)
        return StartUp(
            kv_cache_tokens=found.kv_cache_size_tokens,
            max_concurrency=found.max_concurrency.as_integer_ratio(),
            longest=found.estimated_max_model_len,
        )

    def stage(number: int, holds: Callable[[int], bool]) -> Stage:
        block = plan.stages[number].pool_bytes_per_block
        return Stage(
            layers=tuple(sorted({spec.layer for spec in plan.specs if holds(spec.layer)})),
            at=lambda tokens: PerGpu(
                ideal_bytes_per_sequence=needs[number](tokens),
                admission_bytes_per_sequence=block * checked(demand(tokens)),
                steady_bytes_per_sequence=block * all_groups(resting(tokens)),
            ),
        )

    held = held_stages(arch, options)
    return Rank(
        ideal=lambda tokens: max(need(tokens) for need in needs),
        admission=lambda tokens: pool * checked(demand(tokens)),
        reserved=lambda tokens: pool * all_groups(demand(tokens)),
        steady=lambda tokens: pool * all_groups(resting(tokens)),
        shared=_prefix(plan, arch, options),
        held_back=null_block(plan),
        started=started,
        stages=tuple(starmap(stage, enumerate(held))) if len(held) > 1 else (),
    )


def _distinct(group: Group) -> tuple[Spec, ...]:
    """Return one spec of each kind: the others ask for as many blocks."""
    return tuple(dict.fromkeys(group.specs))


def _counted(groups: tuple[Group, ...]) -> Callable[[Demand], int]:
    """Return a function that counts the blocks of groups; equal ones are worked out once."""
    alike = Counter(groups)
    return lambda demand: sum(count * group.blocks(demand) for group, count in alike.items())


def _needs(
    plan: VllmAdmission, arch: Architecture, options: VllmOptions, source: int
) -> list[Callable[[int], int]]:
    """Return for each stage what it needs for so many tokens."""

    def need(holds: Callable[[int], bool]) -> Callable[[int], int]:
        stage = Counter(spec for spec in plan.specs if holds(spec.layer))
        return lambda tokens: sum(
            count * spec.ideal_bytes(tokens, source) for spec, count in stage.items()
        )

    return [need(holds) for holds in held_stages(arch, options)]


def _prefix(
    plan: VllmAdmission, arch: Architecture, options: VllmOptions
) -> Callable[[int, int], int]:
    """Return what the whole blocks of a prefix take in the groups that hold every token."""
    pool = pool_block(plan) if resolved(arch, options).enable_prefix_caching else 0
    sizes = [
        max(spec.block_size for spec in group.specs) * options.decode_context_parallel_size
        for group in plan.groups
        if all(spec.kind in FULL_KINDS for spec in group.specs)
    ]
    return lambda prefix, tokens: pool * sum(min(prefix, tokens) // size for size in sizes)


VLLM = Engine(
    name="vllm",
    waste=torch_waste,
    on_every_stage=on_every_stage,
    adapt=adapt,
    pack=pack,
    cache_dtypes=CACHE_DTYPES,
    default_cache=_default_cache,
    rank=_rank,
    settings=options_for,
    shares_prefixes=True,
    preempts=True,
    default_context=_default_context,
    positions_in=_positions_in,
    mxfp4_kernel=mxfp4_kernel,
    vocabulary_padding=64,  # vllm/model_executor/layers/vocab_parallel_embedding.py
)
