"""The calculator: structures without a repository, and the ladder of savings, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hfkv.core.calculator import Structure, architecture_of, calculate, grid, ladder
from hfkv.errors import UsageError

GIB = 2**30
K = 1024
# 32 layers, hidden 4096 in 32 heads of 128
MHA = Structure(layers=32, heads=32, kv_heads=32, head_dim=128)
GQA = replace(MHA, kv_heads=8)


def test_the_ladder_of_the_first_example() -> None:
    """128k x 20: 1,280 GiB; 8 of 32 KV heads 320; int8 160; int4 80; paging and offload none."""
    steps = ladder(GQA, tokens=128 * K, sequences=20, dtype="bf16")
    assert [(s.step, s.bytes // GIB, s.before // s.bytes) for s in steps] == [
        ("32 KV heads, bf16", 1280, 1),
        ("8 of 32 KV heads", 320, 4),
        ("int8 cache", 160, 2),
        ("int4 cache", 80, 2),
        ("paged allocation", 80, 1),
        ("offloading", 80, 1),
    ]
    assert all(step.leaves_open for step in steps)


def test_a_latent_and_a_window_are_rungs_of_their_own() -> None:
    """576 latent values against 2 x 32 x 128; a window of 1k in 5 of 6 layers at 64k."""
    latent = replace(MHA, latent=576)
    steps = ladder(latent, tokens=K, sequences=1, dtype="bf16")
    assert steps[1].bytes == 32 * 576 * 2 * K
    windowed = replace(GQA, layers=6, window=(K, 5, 6))
    (near,) = [
        s for s in ladder(windowed, tokens=64 * K, sequences=1, dtype="fp8") if "window" in s.step
    ]
    assert near.step == "window of 1,024 tokens in 5 of 6 layers"
    assert near.bytes == 2 * 8 * 128 * (5 * K + 64 * K)


def test_narrower_formats_only() -> None:
    """From int8 there is one rung left, from int4 none."""
    names = [s.step for s in ladder(GQA, tokens=1, sequences=1, dtype="int8")]
    assert "int8 cache" not in names
    assert "int4 cache" in names
    assert "int4 cache" not in [s.step for s in ladder(GQA, tokens=1, sequences=1, dtype="int4")]


def test_the_table_is_contexts_times_concurrencies() -> None:
    """128 KiB a token: 1, 4, 4 and 16 GiB."""
    cells = grid(GQA, contexts=(8 * K, 32 * K), sequences=(1, 4), dtype="fp16")
    assert [(c.tokens, c.sequences, c.bytes // GIB) for c in cells] == [
        (8 * K, 1, 1),
        (8 * K, 4, 4),
        (32 * K, 1, 4),
        (32 * K, 4, 16),
    ]


def test_latents_say_that_the_formula_does_not_apply() -> None:
    """61 layers of 512 + 64 in 16 bit: DeepSeek-V3's 70,272 a token."""
    latent = Structure(layers=61, kv_heads=128, head_dim=128, latent=512 + 64)
    kv = calculate(latent, tokens=K, sequences=1, dtype="bf16")
    assert kv.bytes_per_token == 70_272
    assert kv.simple_formula.codes == ("mla",)


@pytest.mark.parametrize(
    ("structure", "sentence"),
    [
        (replace(GQA, layers=0), "layers, heads and dims must be positive numbers"),
        (replace(GQA, layers=10_001), "no model has more than 10,000 layers"),
        (replace(GQA, kv_heads=5), "32 heads cannot be divided into 5 KV heads"),
        (
            replace(GQA, window=(K, 7, 6)),
            "a window is TOKENS or TOKENS:PART/WHOLE with PART of every WHOLE layers",
        ),
    ],
)
def test_nonsense_is_refused(structure: Structure, sentence: str) -> None:
    """A structure that no model has is refused by a sentence."""
    with pytest.raises(UsageError) as error:
        architecture_of(structure)
    assert str(error.value) == sentence


def test_lengths_must_be_positive() -> None:
    """Zero tokens or sequences make no sense."""
    with pytest.raises(UsageError, match="lengths and concurrency must be positive"):
        calculate(GQA, tokens=0, sequences=1, dtype="bf16")
