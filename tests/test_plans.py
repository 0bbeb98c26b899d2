"""The ways to share a model between several GPUs, what each copies, and which to take."""

from __future__ import annotations

from dataclasses import replace

import pytest
from asked import DEEPSEEK_V3, LLAMA_8B, LLAMA_70B, asked, fitted
from fit_cases import GIB, KIB, LLAMA, ask, per_token

from hfkv.core.fit import FitReport
from hfkv.core.plans import Plan


def sizes(fit: FitReport) -> list[tuple[int, int]]:
    """Return tensor and pipeline parallel sizes of every plan."""
    return [(plan.tensor_parallel_size, plan.pipeline_parallel_size) for plan in fit.plans]


def recommended(fit: FitReport) -> Plan:
    """Return the one plan that is recommended."""
    (plan,) = (plan for plan in fit.plans if plan.recommended)
    assert all((other.reason is None) is (other is not plan) for other in fit.plans)
    return plan


def test_sixteen_gpus_for_eight_kv_heads() -> None:
    """At TP 16 each of 8 heads is kept twice: 16 KiB a token where 8 would be a sixteenth."""
    fit = ask("16x24gib")
    assert sizes(fit) == [(16, 1), (8, 2), (4, 4), (2, 8), (1, 16)]
    assert fit.plans[0].kv_bytes_per_sequence_per_gpu == 4096 * 16 * KIB
    assert [plan.copied_kv_bytes_per_gpu for plan in fit.plans] == [4096 * 8 * KIB, 0, 0, 0, 0]
    assert [plan.weights_bytes_per_gpu for plan in fit.plans] == [GIB] * 5
    assert [plan.max_sequences for plan in fit.plans] == [21 * GIB // (4096 * 16 * KIB)] + [
        21 * GIB // (4096 * 8 * KIB)
    ] * 4
    best = recommended(fit)
    assert (best.tensor_parallel_size, best.pipeline_parallel_size) == (8, 2)
    assert best.reason == (
        "tensor parallel 8 is the widest that fits in one machine and copies no KV head"
    )


def test_one_machine_of_four_takes_them_all_for_each_token() -> None:
    """Nothing is copied at TP 4, so the widest plan is the one to take."""
    fit = ask("4x24gib")
    best = recommended(fit)
    assert (best.tensor_parallel_size, best.pipeline_parallel_size) == (4, 1)
    assert best.reason == "every GPU works on each token, and nothing of the cache is copied"
    assert best.data_parallel_attention is None


def test_a_single_kv_head_is_copied_by_every_split() -> None:
    """With multi-query attention no tensor parallelism avoids copies: the widest is taken."""
    single = replace(LLAMA, num_key_value_heads=1)
    best = recommended(ask("4x24gib", architecture=single, measure=per_token(16 * KIB)))
    assert best.tensor_parallel_size == 4
    assert best.copied_kv_bytes_per_gpu == 4096 * 12 * KIB
    assert (
        best.reason
        == "every GPU works on each token; KV heads are fewer than 4 GPUs and are copied"
    )


def test_only_what_heads_and_layers_allow_is_listed() -> None:
    """Three GPUs cannot share 32 heads, but they can share 32 layers."""
    fit = ask("3x24gib", pp=3)
    assert sizes(fit) == [(1, 3)]
    assert recommended(fit).reason == "the only plan that the heads and layers allow"
    assert sizes(ask("64x24gib", tp=32, pp=2)) == [(32, 2), (16, 4), (8, 8), (4, 16), (2, 32)]


def test_one_gpu_leaves_no_choice() -> None:
    """A single GPU has no plans."""
    assert ask("24gib").plans == ()


def test_when_none_fits_the_nearest_is_named() -> None:
    """160 GiB of weights on 4 x 24 GiB: every plan lacks, the one without copies least."""
    fit = ask("4x24gib", weights=160 * GIB)
    assert all(plan.fits is False and plan.short_by_bytes > 0 for plan in fit.plans)
    best = recommended(fit)
    assert best.short_by_bytes == min(plan.short_by_bytes for plan in fit.plans)
    assert best.reason == "no plan fits; this one lacks the least"


def test_without_weights_a_plan_does_not_say_that_it_fits() -> None:
    """A lone config.json: only what the cache alone forbids is certain."""
    assert [plan.fits for plan in ask("2x24gib", weights=None).plans] == [None, None]
    assert recommended(ask("2x24gib", weights=None)).weights_bytes_per_gpu is None


def test_latents_are_copied_and_attention_spread_over_the_ranks_would_not_be() -> None:
    """DeepSeek-V3 on eight H200s: 576 values of 61 layers, whole on each of them."""
    report = asked(DEEPSEEK_V3, "h200:8", "vllm", context=32_768, sequences=16)
    (fit,) = report.fit
    best = recommended(fit)
    one = 32_768 * 61 * 576 * 2
    assert best.tensor_parallel_size == 8
    assert best.kv_bytes_per_sequence_per_gpu == one
    assert best.copied_kv_bytes_per_gpu == one // 8 * 7
    assert report.weights is not None
    # q_b, kv_b and o_proj in fp8; what leads to the latents is on every GPU anyhow
    shared = 61 * (128 * 192 * 1536 + 128 * 256 * 512 + 7168 * 128 * 128)
    extra = -(-shared * 7 // 8)
    block = 16 * 61 * 576 * 2  # the one that vLLM holds back
    spread = best.data_parallel_attention
    assert spread is not None
    assert spread.extra_weights_bytes_per_gpu == extra
    assert spread.max_sequences == 8 * ((fit.kv_pool_bytes_per_gpu - extra - block) // one)
    assert best.reason == (
        f"each of 8 GPUs keeps the whole latent cache of {best.max_sequences} sequences; "
        f"data-parallel attention would hold {spread.max_sequences}"
    )
    assert [plan.data_parallel_attention is None for plan in fit.plans] == [False] * 3 + [True]


def test_llama_cpp_shares_the_layers() -> None:
    """It knows one plan: its default `--split-mode layer`."""
    fit = fitted(LLAMA_70B, "h100:4", "llama.cpp", context=8192)
    assert sizes(fit) == [(1, 4)]
    assert recommended(fit).reason == "llama.cpp shares the layers out to the GPUs"


@pytest.mark.parametrize("engine", ["none", "vllm", "sglang", "trtllm"])
def test_no_plan_loses_a_byte(engine: str) -> None:
    """Whatever the split, all ranks together hold the weights and the cache of one sequence."""
    report = asked(LLAMA_8B, "h100:8", engine, context=8192)
    assert report.weights is not None
    for plan in report.fit[0].plans:
        ranks = plan.tensor_parallel_size * plan.pipeline_parallel_size
        assert ranks == 8
        assert (plan.weights_bytes_per_gpu or 0) * ranks >= report.weights.loaded_bytes
        assert plan.kv_bytes_per_sequence_per_gpu * ranks >= 8192 * 128 * KIB
