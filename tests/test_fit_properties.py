"""What must hold of every model, engine and GPU, and nonsense that must not be answered."""

from __future__ import annotations

from typing import Any

import pytest
from asked import DEEPSEEK_V3, GEMMA_27B, GIB, LLAMA_8B, QWEN3_NEXT, asked, fitted
from hypothesis import given, settings
from hypothesis import strategies as st

from hfkv.core.balance import UNLIMITED
from hfkv.core.gpus import parse_gpu
from hfkv.errors import UsageError

MODELS = st.sampled_from(
    (
        LLAMA_8B,
        GEMMA_27B,
        DEEPSEEK_V3,
        QWEN3_NEXT,
        "openai--gpt-oss-20b",
        "mistralai--Mistral-7B-v0.1",
        "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    )
)
ENGINES = st.sampled_from(
    ("none", "vllm", "sglang", "trtllm", "llama.cpp", "ollama", "transformers")
)
TOKENS = st.integers(1, 300_000)
GPUS = st.sampled_from(("h100", "a100-80", "b200", "h200:8", "rtx4090:2", "mi300x:4"))
some = settings(deadline=None, max_examples=60)


@some
@given(MODELS, TOKENS, st.integers(1, 400), st.integers(1, 200), st.integers(1, 8))
def test_more_memory_never_fits_less(
    model: str, tokens: int, gib: int, more: int, sequences: int
) -> None:
    """Without an engine nothing but the card grows; engines size their steps by the card."""
    small, large = (
        fitted(model, f"{size}gib", context=tokens, sequences=sequences)
        for size in (gib, gib + more)
    )
    assert large.kv_pool_bytes_per_gpu >= small.kv_pool_bytes_per_gpu
    assert large.max_sequences >= small.max_sequences
    assert large.max_context >= small.max_context
    assert large.short_by_bytes <= small.short_by_bytes
    assert large.answers is not None
    assert small.answers is not None
    for more_row, row in zip(large.answers.contexts, small.answers.contexts, strict=True):
        assert more_row.max_sequences >= row.max_sequences


@some
@given(MODELS, ENGINES, GPUS, TOKENS, st.integers(0, 200_000))
def test_more_context_never_needs_less(
    model: str, engine: str, gpu: str, tokens: int, more: int
) -> None:
    """A longer sequence reserves and holds at least as much, and no more of them fit."""
    short, long = (asked(model, gpu, engine, context=n) for n in (tokens, tokens + more))
    assert short.kv is not None
    assert long.kv is not None
    for name in ("ideal", "admission", "steady"):
        key = f"{name}_bytes_per_sequence"
        assert getattr(long.kv.per_gpu, key) >= getattr(short.kv.per_gpu, key)
    assert long.fit[0].max_sequences <= short.fit[0].max_sequences
    rows = long.fit[0].answers.contexts if long.fit[0].answers else ()
    falling = [row.max_sequences for row in rows]
    assert falling == sorted(falling, reverse=True)


@some
@given(MODELS, ENGINES, GPUS, TOKENS, st.integers(1, 300))
def test_the_parts_sum_to_the_totals(
    model: str, engine: str, gpu: str, tokens: int, sequences: int
) -> None:
    """Budget, overhead, components and speed are the sums of what is shown of them."""
    report = asked(model, gpu, engine, context=tokens, sequences=sequences)
    (fit,) = report.fit
    assert report.kv is not None
    assert report.kv.bytes_per_sequence == sum(part.bytes for part in report.kv.components)
    assert report.kv.bytes == sequences * report.kv.bytes_per_sequence
    assert fit.overhead_bytes_per_gpu == sum(part.bytes for part in fit.overhead_parts)
    spent = fit.overhead_bytes_per_gpu + (fit.weights_bytes_per_gpu or 0)
    assert fit.kv_pool_bytes_per_gpu == max(0, fit.budget_bytes - spent)
    part, whole = fit.utilization
    if engine != "trtllm":  # it takes its share of what is left
        assert fit.budget_bytes == fit.memory_bytes * part // whole
    elif fit.memory_bytes > spent:
        assert fit.budget_bytes == spent + (fit.memory_bytes - spent) * part // whole
    assert fit.kv_bytes_per_gpu == sequences * fit.kv_bytes_per_sequence_per_gpu
    assert fit.fits is (fit.short_by_bytes == 0)
    assert fit.fits is (sequences <= fit.max_sequences)


@some
@given(MODELS, ENGINES, GPUS, TOKENS, st.integers(1, 300))
def test_what_is_said_to_fit_is_the_last_that_does(
    model: str, engine: str, gpu: str, tokens: int, sequences: int
) -> None:
    """Asked again, with the working memory that goes with it: one more finds no room."""
    fit = fitted(model, gpu, engine, context=tokens, sequences=sequences)
    most, longest = fit.max_sequences, fit.max_context
    if 0 < most < UNLIMITED:
        assert fitted(model, gpu, engine, context=tokens, sequences=most).fits is True
        assert fitted(model, gpu, engine, context=tokens, sequences=most + 1).fits is False
    if longest:
        assert fitted(model, gpu, engine, context=longest).max_sequences >= 1
    limit = max(tokens, asked(model, context=1).architecture.max_context or longest)
    if longest < limit:
        assert fitted(model, gpu, engine, context=longest + 1).max_sequences == 0


@some
@given(MODELS, st.sampled_from(("none", "vllm", "sglang", "trtllm")), TOKENS)
def test_no_plan_loses_a_byte(model: str, engine: str, tokens: int) -> None:
    """The ranks of every plan together hold the need of one sequence, and all weights."""
    report = asked(model, "h200:8", engine, context=tokens)
    whole = asked(model, engine=engine, context=tokens).kv
    assert whole is not None
    assert report.weights is not None
    for plan in report.fit[0].plans:
        ranks = plan.tensor_parallel_size * plan.pipeline_parallel_size
        needed = whole.per_gpu.ideal_bytes_per_sequence
        assert plan.kv_bytes_per_sequence_per_gpu * ranks >= needed
        assert (plan.weights_bytes_per_gpu or 0) * ranks >= report.weights.loaded_bytes


@some
@given(MODELS, ENGINES, GPUS, TOKENS)
def test_eight_bits_never_need_more_than_sixteen(
    model: str, engine: str, gpu: str, tokens: int
) -> None:
    """The engine's own format of 8 bits: fp8, or q8_0 with its scales."""
    small = "q8_0" if engine in ("llama.cpp", "ollama") else "fp8"
    wide = "fp16" if small == "q8_0" else "bf16"
    less, full = (
        asked(model, gpu, engine, context=tokens, kv_dtype=name).kv for name in (small, wide)
    )
    assert less is not None
    assert full is not None
    assert less.bytes <= full.bytes
    assert less.per_gpu.ideal_bytes_per_sequence <= full.per_gpu.ideal_bytes_per_sequence


@pytest.mark.parametrize(
    ("gpu", "given", "message"),
    [
        ("h100:3", {}, "tensor parallel size 3 does not split the model's attention heads evenly"),
        (
            "h100:3",
            {"engine": "vllm"},
            "vLLM cannot share 32 attention heads between 3 tensor-parallel ranks",
        ),
        ("h100", {"utilization": 1.7}, "--utilization 1.7 is not a share of a GPU"),
        ("h100", {"overhead_bytes": -GIB}, "--overhead -1073741824 is negative"),
        ("h100", {"engine": "vlm"}, "unknown engine 'vlm'"),
        ("h100", {"kv_dtype": "fp7"}, "unknown KV dtype 'fp7'"),
    ],
)
def test_nonsense_is_refused_by_a_sentence(gpu: str, given: dict[str, Any], message: str) -> None:
    """Not by a traceback, and not by an answer."""
    with pytest.raises(UsageError) as error:
        asked(LLAMA_8B, gpu, context=8192, **given)
    assert error.value.message == message


def test_a_slip_in_a_name_is_met_with_the_nearest_names() -> None:
    """`a100-81` is none."""
    with pytest.raises(UsageError) as error:
        parse_gpu("a100-81")
    assert error.value.message == "unknown GPU 'a100-81'"
    assert error.value.hint is not None
    assert "a100-80" in error.value.hint


@pytest.mark.parametrize("engine", ["none", "vllm", "llama.cpp"])
def test_a_context_above_the_maximum_is_computed_with_a_warning(engine: str) -> None:
    """262,144 tokens of a model made for 131,072."""
    report = asked(LLAMA_8B, "h200", engine, context=262_144)
    assert report.kv is not None
    assert report.kv.bytes == 262_144 * 131_072
    assert report.fit[0].max_context == 262_144
    (found,) = (f for f in report.findings if f.code == "context-above-maximum")
    assert found.message == "262,144 tokens are more than the model's 131,072"


@some
@given(MODELS, ENGINES, st.sampled_from(("t4", "rtx4090:2", "a100-40:4")), st.integers(1, 80))
def test_a_format_of_the_weights_frees_what_it_says(
    model: str, engine: str, gpu: str, sequences: int
) -> None:
    """Asked again with --weights-dtype, to the byte: embeddings and head keep their place."""
    before = fitted(model, gpu, engine, context=4096, sequences=sequences)
    for way in before.ways_to_fit:
        flag, name = way.change.split()[:2]
        if flag != "--weights-dtype":
            continue
        after = fitted(model, gpu, engine, context=4096, sequences=sequences, weights_dtype=name)
        assert after.fits is way.fits
        if not way.fits:
            assert before.short_by_bytes - after.short_by_bytes == way.frees_bytes
