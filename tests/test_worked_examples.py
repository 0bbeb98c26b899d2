"""The worked examples this project grew from, each worked out by hand in the test."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from hfkv.core.dtypes import cache_dtype
from hfkv.core.files import ModelFiles, Target, TensorGroup
from hfkv.core.kv import KVReport
from hfkv.core.report import analyze
from hfkv.core.workload import Deployment, GpuChoice, Workload

GIB = 2**30
KIB = 2**10


def model(**keys: object) -> ModelFiles:
    """Return the files of a llama-like model with 32 layers, hidden 4096 and 32 heads."""
    config = {
        "model_type": "llama",
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "max_position_embeddings": 131072,
        "torch_dtype": "float16",
        **keys,
    }
    return ModelFiles(target=Target(kind="file", id="worked"), config=config)


def cache(files: ModelFiles, tokens: int, sequences: int = 1) -> KVReport:
    """Return the cache report at a length and a concurrency."""
    kv = analyze(files, Workload(context=tokens, sequences=sequences)).kv
    assert kv is not None
    return kv


@pytest.mark.parametrize(
    ("tokens", "sequences", "gib"), [(4 * KIB, 1, 2), (4 * KIB, 8, 16), (128 * KIB, 8, 512)]
)
def test_multi_head_attention_in_fp16(tokens: int, sequences: int, gib: int) -> None:
    """2 x 32 layers x 4096 hidden x 2 bytes = 512 KiB a token: 2, 16 and 512 GiB."""
    assert 2 * 32 * 4096 * 2 * tokens * sequences == gib * GIB  # by hand
    assert cache(model(), tokens, sequences).bytes == gib * GIB


@pytest.mark.parametrize(
    ("tokens", "sequences", "gib"), [(8192, 1, 1), (32768, 1, 4), (32768, 4, 16), (65536, 4, 32)]
)
def test_grouped_heads(tokens: int, sequences: int, gib: int) -> None:
    """2 x 32 x 8 x 128 x 2 bytes = 128 KiB a token: 1, 4, 16 and 32 GiB."""
    kv = cache(model(num_key_value_heads=8), tokens, sequences)
    assert kv.bytes_per_token == 128 * KIB
    assert kv.bytes == gib * GIB
    assert kv.simple_formula.applies
    assert kv.simple_formula.bytes == gib * GIB


def test_all_heads_cost_four_times_a_quarter_of_them() -> None:
    """Without grouped heads a token costs 512 KiB instead of 128."""
    assert cache(model(), 4096).bytes_per_token == 512 * KIB


def test_four_bit_weights() -> None:
    """7e9 parameters x 4 bit = 3.5e9 bytes = 3.26 GiB."""
    size = cache_dtype("int4").size(7_000_000_000)
    assert size == 3_500_000_000
    assert round(size / GIB, 2) == 3.26


def card(gib: int) -> GpuChoice:
    """Return one GPU of a plain size."""
    return GpuChoice(
        slug=f"{gib}gib", name=f"{gib} GiB", count=1, memory_bytes=gib * GIB, memory_source="given"
    )


def with_weights(files: ModelFiles, gib: int) -> ModelFiles:
    """Return the files with one tensor of that many GiB in half precision."""
    rows = gib * GIB // 2 // 4096
    name = "model.layers.0.mlp.up_proj.weight"
    tensor = TensorGroup(
        name=name.replace("0", "{}"),
        dtype="F16",
        shape=(rows, 4096),
        nbytes=gib * GIB,
        layers=(0,),
    )
    return replace(files, tensors=(tensor,))


@pytest.mark.parametrize(("tokens", "requests"), [(4 * KIB, 12), (8 * KIB, 6)])
def test_a_24_gib_card(tokens: int, requests: int) -> None:
    """24 - 16 weights - 2 margin = 6 GiB; / 128 KiB = 49,152 tokens: 12 at 4K, 6 at 8K."""
    assert (24 - 16 - 2) * GIB // (128 * KIB) == 49_152  # by hand
    files = with_weights(model(num_key_value_heads=8), 16)
    deployment = Deployment(gpus=(card(24),), utilization=Fraction(1), overhead_bytes=2 * GIB)
    (fit,) = analyze(files, Workload(context=tokens, deployment=deployment)).fit
    assert fit.kv_pool_bytes_per_gpu == 6 * GIB
    assert fit.max_tokens == 49_152
    assert fit.max_sequences == requests


def test_doubling_the_context_halves_the_concurrency() -> None:
    """The same pool holds half as many sequences of twice the length."""
    files = with_weights(model(num_key_value_heads=8), 16)
    deployment = Deployment(gpus=(card(24),), utilization=Fraction(1), overhead_bytes=2 * GIB)
    short, long = (
        analyze(files, Workload(context=n, deployment=deployment)).fit[0].max_sequences
        for n in (2048, 4096)
    )
    assert (short, long) == (24, 12)


def test_real_lengths_are_summed() -> None:
    """--seq-lens 1200,8k,8k,32k holds 50,352 tokens of 128 KiB."""
    lengths = (1200, 8 * KIB, 8 * KIB, 32 * KIB)
    kv = analyze(model(num_key_value_heads=8), Workload(seq_lens=lengths)).kv
    assert kv is not None
    assert kv.bytes == 50_352 * 128 * KIB
    assert kv.sequences == 4
    assert kv.simple_formula.bytes == kv.bytes
