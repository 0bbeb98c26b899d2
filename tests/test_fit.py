"""What a GPU leaves for the cache, how far that goes, and what helps when it is too little."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from fit_cases import GIB, KIB, LLAMA, LLAMA_WEIGHTS, ask, per_token
from hypothesis import given, settings
from hypothesis import strategies as st

from hfkv.core.fit import WayToFit
from hfkv.core.workload import Workload
from hfkv.errors import UsageError


@pytest.mark.parametrize(("tokens", "sequences"), [(4096, 12), (8192, 6), (16384, 3), (49152, 1)])
def test_doubling_the_context_halves_the_concurrency(tokens: int, sequences: int) -> None:
    """24 GiB - 16 GiB of weights - 2 GiB of margin = 6 GiB = 49,152 tokens of 128 KiB."""
    report = ask("24gib", tokens=tokens)
    assert report.kv_pool_bytes_per_gpu == 6 * GIB
    assert report.max_tokens == 49_152
    assert report.max_context == 49_152
    assert report.max_sequences == sequences
    assert report.fits is True
    assert report.ways_to_fit == ()


def test_a_cache_four_times_as_large_holds_a_quarter() -> None:
    """MHA with 32 instead of 8 KV heads is 512 KiB a token: 12,288 tokens, 3 requests at 4K."""
    report = ask("24gib", measure=per_token(512 * KIB))
    assert (report.max_tokens, report.max_sequences) == (12_288, 3)


def test_llama_on_an_a100_by_hand() -> None:
    """The whole account of one card, each line worked out beside it."""
    report = ask(
        "a100-80",
        tokens=131_072,
        weights=LLAMA_WEIGHTS,
        simple=17_179_869_184,
        utilization=None,
        overhead=None,
    )
    assert (report.gpu, report.count) == ("a100-80", 1)
    assert (report.tensor_parallel_size, report.pipeline_parallel_size) == (1, 1)
    assert report.memory_bytes == 84_975_927_951  # 79.14 GiB
    assert report.memory_source == "framework total"
    assert report.utilization == (9, 10)
    assert report.budget_bytes == 76_478_335_155  # nine tenths of it
    assert report.weights_bytes_per_gpu == LLAMA_WEIGHTS
    assert [(part.name, part.bytes) for part in report.overhead_parts] == [
        ("libraries", 268_435_456),
        ("activation peak", 42_991_616 + 2048 * 4096 * 27),  # 41 MiB + what a layer holds
        ("captured graphs", 104_857_600),  # for one sequence: 100 MiB
    ]
    assert report.overhead_bytes_per_gpu == 642_777_088
    assert report.kv_pool_bytes_per_gpu == 76_478_335_155 - LLAMA_WEIGHTS - 642_777_088
    assert report.kv_bytes_per_sequence_per_gpu == 17_179_869_184
    assert report.fits is True
    assert report.short_by_bytes == 0
    assert report.max_sequences == 3  # 59.2 of 17.2 GB each
    assert report.simple_formula_max_sequences == 3
    assert report.max_context == 131_072  # one sequence could be longer; the model could not
    assert report.max_tokens == 59_775_035_571 // 131_072
    assert report.verdict == "fits"
    assert report.notes == ()


def test_what_is_missing_is_told_exactly() -> None:
    """13 requests at 4K need 6.5 GiB where 6 are left: short by half a GiB."""
    report = ask("24gib", sequences=13)
    assert report.fits is False
    assert report.short_by_bytes == GIB // 2
    assert report.max_sequences == 12


def test_weights_that_are_too_large_leave_nothing() -> None:
    """With 30 GiB of weights on 24 GiB there is no pool, and the lack counts both."""
    report = ask("24gib", weights=30 * GIB)
    assert report.kv_pool_bytes_per_gpu == 0
    assert (report.max_sequences, report.max_context, report.max_tokens) == (0, 0, 0)
    assert report.short_by_bytes == 8 * GIB + 4096 * 128 * KIB


def test_tensor_parallelism_divides_weights_and_cache() -> None:
    """On four cards each keeps a quarter of the weights and two of the eight KV heads."""
    report = ask("4x24gib", weights=LLAMA_WEIGHTS, simple=4096 * 128 * KIB)
    assert report.tensor_parallel_size == 4
    assert report.weights_bytes_per_gpu == 4_015_130_624
    assert report.kv_bytes_per_sequence_per_gpu == 4096 * 32 * KIB
    assert report.simple_formula_max_sequences == report.max_sequences
    assert report.notes == ("weights are taken to be split evenly over the GPUs",)


def test_more_ranks_than_kv_heads_copy_them() -> None:
    """At TP 16 each rank still keeps one of eight heads: 16 KiB a token, as at TP 8."""
    assert ask("8x24gib").kv_bytes_per_sequence_per_gpu == 4096 * 16 * KIB
    assert ask("16x24gib").kv_bytes_per_sequence_per_gpu == 4096 * 16 * KIB


def test_pipeline_stages_split_the_layers() -> None:
    """Three stages of 32 layers: the fullest has 11, and 11/32 of the weights."""
    report = ask("3x24gib", pp=3, weights=32 * GIB)
    assert (report.tensor_parallel_size, report.pipeline_parallel_size) == (1, 3)
    assert report.weights_bytes_per_gpu == 11 * GIB
    assert report.kv_bytes_per_sequence_per_gpu == 4096 * 11 * 4 * KIB


def test_real_lengths_are_summed() -> None:
    """Lengths of 1,024 and 40,960 take 5.125 GiB and fit in 6, though two of the longer do not."""
    report = ask(
        "24gib",
        tokens=40_960,
        sequences=2,
        workload=Workload(seq_lens=(1024, 40_960)),
        simple=41_984 * 128 * KIB,
    )
    assert report.fits is True
    assert report.max_sequences == 1
    assert report.simple_formula_max_sequences == 1


def test_without_weights_only_a_no_is_certain() -> None:
    """A lone config.json: the pool is what weights will be taken from, and yes is not said."""
    report = ask("24gib", weights=None)
    assert report.weights_bytes_per_gpu is None
    assert report.fits is None
    assert report.short_by_bytes == 0
    assert report.kv_pool_bytes_per_gpu == 22 * GIB
    assert report.notes == ("the weights are not known: the pool is what is left before them",)
    assert ask("24gib", weights=None, sequences=45).fits is False  # 22.5 GiB


def test_a_model_without_a_cache_is_not_limited_by_it() -> None:
    """BERT keeps nothing: it fits when its weights do, and the report says why no number."""
    report = ask("24gib", measure=per_token(0), tokens=512)
    assert report.fits is True
    assert report.max_sequences == 2**20
    assert report.max_tokens == 2**20 * 512
    assert report.simple_formula_max_sequences is None
    assert report.notes == ("a sequence takes no cache: memory does not limit their number",)
    assert ask("24gib", measure=per_token(0), weights=30 * GIB).max_sequences == 0


def test_a_context_beyond_the_models_maximum_is_still_answered() -> None:
    """Asked for 262,144 tokens of a 131,072-token model, the longest is what was asked."""
    report = ask("a100-80", tokens=262_144)
    assert report.fits is True
    assert report.max_context == 262_144


def test_a_model_without_a_maximum_is_searched_to_16_million() -> None:
    """Where no maximum is stated the search ends at 2^24 tokens."""
    unbounded = replace(LLAMA, max_context=None)
    assert ask("24gib", architecture=unbounded, measure=per_token(1)).max_context == 2**24
    assert ask("24gib", architecture=unbounded).max_context == 49_152


def test_weaker_memory_figures_are_noted() -> None:
    """An A30's framework total was never seen, and the report says what stands in for it."""
    assert ask("a30").notes == (
        "memory is the driver total: the framework's own total was not seen",
    )


def test_ways_to_fit_are_exact_and_those_that_suffice_come_first() -> None:
    """20 requests at 4K need 10 GiB of 6: every single change, with what it frees."""
    assert ask("24gib", sequences=20).ways_to_fit == (
        WayToFit(change="--kv-dtype fp8", frees_bytes=5 * GIB, fits=True),
        # 6 GiB / 20 / 128 KiB = 2,457 tokens; 2,304 = 9 x 256 take 5.625 GiB
        WayToFit(change="--context 2304", frees_bytes=10 * GIB - 45 * GIB // 8, fits=True),
        WayToFit(change="--concurrency 12", frees_bytes=4 * GIB, fits=True),
        WayToFit(change="--gpu 24gib:2", frees_bytes=8 * GIB + 5 * GIB, fits=True),
        # the smallest NVIDIA card seen to have 28 GiB: an RTX 5090 shows 31.36
        WayToFit(change="--gpu rtx5090", frees_bytes=33_672_543_600 - 24 * GIB, fits=True),
    )


def test_ways_that_do_not_suffice_are_shown_last() -> None:
    """With 30 GiB of weights on 24 GiB no change of the work is enough; a second card is."""
    ways = ask("24gib", weights=30 * GIB).ways_to_fit
    assert [(way.change, way.fits) for way in ways] == [
        ("--gpu 24gib:2", True),
        ("--gpu a100-40", True),
        ("--kv-dtype fp8", False),
    ]


def test_a_stated_parallel_size_follows_the_gpus() -> None:
    """Where --tp was given, the proposal of more GPUs carries the --tp that goes with it."""
    ways = ask("2x24gib", tp=2, weights=60 * GIB).ways_to_fit
    assert ways[0].change == "--gpu 24gib:4 --tp 4"


def test_when_no_number_of_gpus_helps_the_next_one_is_still_shown() -> None:
    """A copied cache of 1 TiB fits nowhere: two cards only free half of the weights."""
    ways = ask("24gib", measure=per_token(GIB), tokens=1024).ways_to_fit
    assert WayToFit(change="--gpu 24gib:2", frees_bytes=8 * GIB, fits=False) in ways


def test_real_lengths_are_not_shortened() -> None:
    """Lengths the user measured are not changed by a proposal."""
    workload = Workload(seq_lens=(60_000,))
    ways = ask("24gib", tokens=60_000, workload=workload).ways_to_fit
    assert [way.change for way in ways] == [
        "--kv-dtype fp8",
        "--gpu 24gib:2",
        "--gpu rtx5090",
    ]


@pytest.mark.parametrize(
    ("share", "shown"), [("1.7", "1.7"), ("0", "0"), ("-0.5", "-0.5"), ("90", "90")]
)
def test_a_share_is_above_0_and_at_most_1(share: str, shown: str) -> None:
    """`--utilization 1.7` is refused by a sentence."""
    with pytest.raises(UsageError) as error:
        ask("24gib", utilization=Fraction(share))
    assert str(error.value) == f"--utilization {shown} is not a share of a GPU"
    assert error.value.hint == "it is above 0 and at most 1, for example 0.9"


def test_a_negative_overhead_is_refused() -> None:
    """An overhead cannot give memory back."""
    with pytest.raises(UsageError) as error:
        ask("24gib", overhead=-1)
    assert str(error.value) == "--overhead -1 is negative"
    assert error.value.hint == "give a size such as 2gib"


SIZES = st.integers(0, 300 * GIB)
COUNTS = st.sampled_from([1, 2, 4, 8, 16, 32])
CONTEXTS = st.integers(1, 200_000)
OVERHEADS = st.one_of(st.none(), st.integers(0, 8 * GIB))
unhurried = settings(deadline=None)  # a busy machine is not a failure


@unhurried
@given(st.integers(1000, 300_000), st.integers(0, 300_000), SIZES, CONTEXTS, OVERHEADS)
def test_more_memory_never_fits_less(
    mib: int, more: int, weights: int, tokens: int, overhead: int | None
) -> None:
    """A larger card holds at least as many sequences and as long a context."""
    small, large = (
        ask(f"{size}mib:2", tokens=tokens, weights=weights, overhead=overhead, utilization=None)
        for size in (mib, mib + more)
    )
    assert large.kv_pool_bytes_per_gpu >= small.kv_pool_bytes_per_gpu
    assert large.max_sequences >= small.max_sequences
    assert large.max_context >= small.max_context
    assert large.short_by_bytes <= small.short_by_bytes


@unhurried
@given(CONTEXTS, CONTEXTS, SIZES, COUNTS)
def test_more_context_never_needs_less(tokens: int, more: int, weights: int, count: int) -> None:
    """A longer context leaves no more sequences and never shortens the lack."""
    short, long = (
        ask(f"24gib:{count}", tokens=size, weights=weights) for size in (tokens, tokens + more)
    )
    assert long.max_sequences <= short.max_sequences
    assert long.short_by_bytes >= short.short_by_bytes


@unhurried
@given(
    sequences=st.integers(1, 600),
    gib=st.integers(1, 300),
    weights=SIZES,
    tokens=CONTEXTS,
    count=COUNTS,
    overhead=OVERHEADS,
)
def test_the_parts_sum_to_the_total(
    *, sequences: int, gib: int, weights: int, tokens: int, count: int, overhead: int | None
) -> None:
    """Budget = overhead + weights + pool, and the verdict follows from the pool alone."""
    report = ask(
        f"{gib}gib:{count}",
        tokens=tokens,
        sequences=sequences,
        weights=weights,
        overhead=overhead,
    )
    assert report.weights_bytes_per_gpu is not None
    spent = report.overhead_bytes_per_gpu + report.weights_bytes_per_gpu
    assert report.kv_pool_bytes_per_gpu == max(0, report.budget_bytes - spent)
    if overhead is None:
        assert report.overhead_bytes_per_gpu == sum(p.bytes for p in report.overhead_parts)
    needed = sequences * report.kv_bytes_per_sequence_per_gpu
    assert report.short_by_bytes == max(0, spent + needed - report.budget_bytes)
    assert report.fits is (report.short_by_bytes == 0)
    assert report.fits is (sequences <= report.max_sequences)


@unhurried
@given(SIZES, st.sampled_from([(1, 1), (2, 1), (4, 3), (8, 5), (32, 7), (16, 32)]))
def test_splitting_never_loses_a_byte(weights: int, sizes: tuple[int, int]) -> None:
    """The ranks of any plan together hold all weights and the whole cache."""
    tp, pp = sizes
    report = ask(f"{tp * pp}x24gib", tp=tp, pp=pp, weights=weights)
    assert (report.weights_bytes_per_gpu or 0) * tp * pp >= weights
    assert report.kv_bytes_per_sequence_per_gpu * tp * pp >= 4096 * 128 * KIB


@unhurried
@given(st.integers(1, 600), st.integers(1, 80), SIZES, CONTEXTS)
def test_a_way_that_is_said_to_fit_does(
    sequences: int, gib: int, weights: int, tokens: int
) -> None:
    """Following a proposal to the letter gives a report that fits."""
    report = ask(f"{gib}gib", tokens=tokens, sequences=sequences, weights=weights)
    for way in report.ways_to_fit:
        option, value = way.change.split()
        again = ask(
            value if option == "--gpu" else f"{gib}gib",
            tokens=int(value) if option == "--context" else tokens,
            sequences=int(value) if option == "--concurrency" else sequences,
            workload=Workload(kv_dtype="fp8" if option == "--kv-dtype" else "auto"),
            weights=weights,
        )
        assert again.fits is way.fits
        assert way.frees_bytes > 0
