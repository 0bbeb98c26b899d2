"""vLLM's start-up check: the blocks one sequence may take, and what a pool holds of them.

Source: vLLM 0.32 (and older versions where a rule changed), v1/core/kv_cache_utils.py,
v1/kv_cache_interface.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from hfkv.core.architecture import Architecture
from hfkv.core.engines.engine import Formats, text_type
from hfkv.core.engines.stages import pipeline_stages
from hfkv.core.engines.vllm_blocks import sized
from hfkv.core.engines.vllm_groups import Group, form_groups, pool_bytes
from hfkv.core.engines.vllm_options import VllmOptions, whole_prompts
from hfkv.core.engines.vllm_refusals import refuse
from hfkv.core.engines.vllm_releases import refuse_format
from hfkv.core.engines.vllm_specs import Demand, Spec, raw_specs
from hfkv.core.record import dataclass
from hfkv.core.stores import Role

__all__ = [
    "VllmAdmission",
    "VllmCapacity",
    "VllmStage",
    "admission",
    "capacity",
    "demands",
    "groups",
    "held_stages",
    "null_block",
    "pool_block",
    "resolved",
    "specs",
]

# Layouts that put pages of different sizes side by side.
# Source: mla/indexer.py, models/dots3_note/nvidia/attention.py.
_PACKED_LAYOUT = frozenset({"deepseek_v4", "dots3_note_text"})
_DRAFTERS = 64  # more than any model has


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmStage:
    """One pipeline stage: its caches, one block of its pool, what a sequence needs there."""

    layers_with_cache: int
    pool_bytes_per_block: int
    ideal_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmAdmission:
    """What vLLM reserves for one sequence of `max_model_len` tokens on one tensor rank.

    `stages` are the pipeline's, in order; the other figures are of all of them together.
    """

    max_model_len: int
    specs: tuple[Spec, ...]
    groups: tuple[Group, ...]
    demand: Demand
    stages: tuple[VllmStage, ...]
    ideal_bytes: int
    version: tuple[int, int]

    @property
    def pool_bytes_per_block(self) -> int:
        """Return the bytes of one block, the widest group's."""
        return pool_bytes(self.groups)

    @property
    def blocks_per_sequence(self) -> int:
        """Return the blocks of all groups; they are drawn from one pool."""
        return self.blocks(self.demand)

    @property
    def max_memory_usage_bytes(self) -> int:
        """Return the bytes that one sequence may take."""
        return self.pool_bytes_per_block * self.blocks_per_sequence

    def blocks(self, demand: Demand) -> int:
        """Return the blocks that the start-up check counts for one request.

        From 0.14 to 0.19 it counted those of the first group only.
        """
        return sum(group.blocks(demand) for group in self.checked)

    @property
    def checked(self) -> tuple[Group, ...]:
        """Return the groups whose blocks the start-up check counts."""
        return self.groups[:1] if (0, 14) <= self.version < (0, 20) else self.groups


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmCapacity:
    """What a pool of `available_bytes` holds, as vLLM logs it.

    `estimated_max_model_len` is the longest sequence the start-up check would let pass, at
    most the one asked for; 0 when not even one token fits.
    """

    available_bytes: int
    num_blocks: int
    kv_cache_size_tokens: int
    max_concurrency: Fraction
    fits: bool
    estimated_max_model_len: int


def specs(arch: Architecture, formats: Formats, options: VllmOptions) -> tuple[Spec, ...]:
    """Return every cache of the model on one rank, with its block and page.

    Raises UnsupportedError for a model that vLLM does not serve, UsageError for a plan.
    """
    refuse(arch, options)
    refuse_format(formats.cache.name, options.version)
    options = resolved(arch, options)
    return sized(arch, raw_specs(arch, formats, options), formats, options)


def groups(arch: Architecture, found: tuple[Spec, ...], options: VllmOptions) -> tuple[Group, ...]:
    """Return the groups in which the layers share the pool."""
    return form_groups(
        found,
        hybrid_manager=options.hybrid_kv_cache_manager,
        packed=text_type(arch) in _PACKED_LAYOUT,
    )


def resolved(arch: Architecture, options: VllmOptions) -> VllmOptions:
    """Return the options with prefix caching decided.

    It is off by default for encoder-decoders and pure recurrent models and, before 0.26,
    for every model with states. Source: vLLM 0.32 config/model.py.
    """
    if options.enable_prefix_caching is not None:
        return options
    roles = {store.role for layer in arch.layers for store in layer.stores}
    states = bool(roles & {Role.STATE, Role.CONV})
    caching = bool(roles & {Role.KV, Role.LATENT}) and Role.CROSS not in roles
    if states and options.version < (0, 26):
        caching = False
    return replace(options, enable_prefix_caching=caching)


def admission(
    arch: Architecture,
    formats: Formats,
    options: VllmOptions,
    *,
    max_model_len: int,
    source_tokens: int | None = None,
) -> VllmAdmission:
    """Return what vLLM would reserve for one sequence of `max_model_len` tokens.

    Raises UnsupportedError for a model that vLLM does not serve, UsageError for a plan or
    a cache format that it refuses.
    """
    found = specs(arch, formats, options)
    formed = groups(arch, found, options)
    source = (arch.source_tokens if source_tokens is None else source_tokens) or 0

    def stage(holds: Callable[[int], bool]) -> VllmStage:
        held = [spec for spec in found if holds(spec.layer)]
        return VllmStage(
            layers_with_cache=len(held),
            pool_bytes_per_block=pool_bytes(formed, holds),
            ideal_bytes=sum(spec.ideal_bytes(max_model_len, source) for spec in held),
        )

    return VllmAdmission(
        max_model_len=max_model_len,
        specs=found,
        groups=formed,
        demand=demands(arch, options)(max_model_len),
        stages=tuple(stage(holds) for holds in held_stages(arch, options)),
        ideal_bytes=sum(spec.ideal_bytes(max_model_len, source) for spec in found),
        version=options.version,
    )


def demands(arch: Architecture, options: VllmOptions) -> Callable[[int], Demand]:
    """Return what one request may ask for, by its length."""
    whole, drafted = whole_prompts(arch), options.num_speculative_tokens
    chain = min(max(1, arch.mtp_layers or 0), drafted) > 1

    def demand(max_model_len: int) -> Demand:
        batched, _ = options.step(max_model_len, whole_prompts=whole)
        return Demand(
            max_model_len=max_model_len,
            in_flight=options.concurrent_batches * batched,
            encoder_tokens=batched,
            retained=drafted - 1 if chain else 0,
            context_parallel=options.decode_context_parallel_size,
        )

    return demand


def held_stages(arch: Architecture, options: VllmOptions) -> list[Callable[[int], bool]]:
    """Return for each stage which layers it holds; drafters are on the last one."""
    count = len(arch.layers)
    stages = pipeline_stages(count, options.pipeline_parallel_size)
    held = [*map(set, stages[:-1]), set(stages[-1]) | set(range(count, count + _DRAFTERS))]
    return [layers.__contains__ for layers in held]


def capacity(plan: VllmAdmission, available_bytes: int) -> VllmCapacity:
    """Return what `available_bytes` for the pool of the fullest stage hold.

    From 0.30 on one block is held back before the start-up check. Up to 0.20 the logged
    number of tokens counted every group as if it held all of them.
    """
    pool = pool_block(plan)
    blocks = available_bytes // pool if pool else 0
    usable = available_bytes - null_block(plan)
    asked = sum(group.blocks(plan.demand) for group in plan.groups)
    concurrency = Fraction(blocks, max(1, asked))
    tokens = int(concurrency * plan.max_model_len)
    if plan.version < (0, 21) and plan.groups:
        size = min(spec.block_size for group in plan.groups for spec in group.specs)
        tokens = blocks // len(plan.groups) * size * plan.demand.context_parallel
    return VllmCapacity(
        available_bytes=available_bytes,
        num_blocks=blocks,
        kv_cache_size_tokens=tokens,
        max_concurrency=concurrency,
        fits=pool * plan.blocks(plan.demand) <= usable,
        estimated_max_model_len=_longest(plan, pool, usable),
    )


def pool_block(plan: VllmAdmission) -> int:
    """Return the bytes of one block on the fullest stage."""
    return max(stage.pool_bytes_per_block for stage in plan.stages)


def null_block(plan: VllmAdmission) -> int:
    """Return the bytes of the block that from 0.30 on is no request's."""
    return pool_block(plan) if plan.version >= (0, 30) else 0


def _longest(plan: VllmAdmission, pool: int, usable: int) -> int:
    """Return the longest request that `usable` bytes admit, at most the plan's."""

    def fits(length: int) -> bool:
        return pool * plan.blocks(replace(plan.demand, max_model_len=length)) <= usable

    low, high = 0, plan.max_model_len
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
