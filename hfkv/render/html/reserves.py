"""What vLLM reserves for one sequence, as blocks that the page's script can count.

The groups that share its pool depend on the cache format, on how many GPUs split the heads
and, for some formats, on the generation of the GPU: each combination is asked for once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

from hfkv.core.engines.registry import engine_named
from hfkv.core.engines.vllm_admission import admission, demands, null_block, pool_block
from hfkv.core.engines.vllm_groups import Group
from hfkv.core.engines.vllm_options import VllmOptions, options_for, whole_prompts
from hfkv.core.gpus import parse_gpu
from hfkv.core.precision import Precision
from hfkv.core.report import Report
from hfkv.core.workload import GpuChoice
from hfkv.errors import HfkvError
from hfkv.render.html.holdings import precision_of

__all__ = ["reserves"]

# Formats that tell generations apart, where any do.
_TELLING = ("bfloat16", "float16", "fp8")


def reserves(report: Report, formats: list[str], counts: list[int]) -> dict[str, Any]:
    """Return pools and groups by generation, format and number of GPUs.

    `generation_of` names those GPUs that are not of the first one.
    """
    engine = engine_named("vllm")
    precisions = {name: precision_of(report, engine, name) for name in formats}
    cached = {precision.cache.name: precision for precision in precisions.values()}
    choices = (*parse_gpu("all"), *report.workload.deployment.gpus)
    majors = {gpu.slug: _options(report, gpu).compute_capability for gpu in choices}

    @cache  # two names may stand for one format
    def pool(name: str, gpu: GpuChoice) -> dict[str, Any]:
        return _pool(report, cached[name], gpu)

    known: list[list[Any]] = []
    tables: list[dict[str, Any]] = []
    generation: dict[int, int] = {}
    for gpu in {majors[gpu.slug]: replace(gpu, count=1) for gpu in choices}.values():
        signs = [pool(name, gpu) for name in cached if name in _TELLING]
        if signs not in known:
            known.append(signs)
            tables.append(
                {
                    name: {str(n): pool(one.cache.name, replace(gpu, count=n)) for n in counts}
                    for name, one in precisions.items()
                }
            )
        generation[majors[gpu.slug]] = known.index(signs)
    return {
        "tables": tables,
        "generation_of": {slug: n for slug, major in majors.items() if (n := generation[major])},
        "whole_prompts": whole_prompts(report.architecture),
    }


def _options(report: Report, gpu: GpuChoice) -> VllmOptions:
    return options_for(replace(report.workload.deployment, gpus=(gpu,)))


def _pool(report: Report, precision: Precision, gpu: GpuChoice) -> dict[str, Any]:
    """Return the groups of one plan, or why vLLM refuses it."""
    arch, options = report.architecture, _options(report, gpu)
    try:
        plan = admission(arch, precision, options, max_model_len=1)
    except HfkvError as error:
        return {"refused": error.message}
    alike = Counter(_blocks(group) for group in plan.groups)
    return {
        "block": pool_block(plan),
        "held_back": null_block(plan),
        "batches": options.concurrent_batches,
        "retained": demands(arch, options)(1).retained,
        "groups": [[times, *map(list, group)] for group, times in alike.items()],
    }


def _blocks(group: Group) -> tuple[tuple[Any, ...], ...]:
    """Return the distinct specs of a group: kind, tokens in a block, window, states."""
    return tuple(
        dict.fromkeys(
            (str(spec.kind), spec.block_size, spec.window, spec.states, spec.every_block)
            for spec in group.specs
        )
    )
