"""Numbers, runs of layers and foreign text, as people read them."""

from __future__ import annotations

import pytest
from asked import steers
from hypothesis import given
from hypothesis import strategies as st

from hfkv.core.stores import Grows, Layer, LayerKind
from hfkv.render.layers import dims, every, group_layers, heads
from hfkv.render.units import clean, count, percent, ratio, size, sizes


@pytest.mark.parametrize(
    ("nbytes", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (70_272, "68.6 KiB"),  # DeepSeek-V3, per token: 70,272 / 1,024 = 68.625
        (131_072, "128 KiB"),  # Llama-3.1-8B, per token
        (2**20 - 1, "1.00 MiB"),  # never 1024 KiB
        (16_060_522_496, "15.0 GiB"),  # Llama-3.1-8B, weights: 14.957
        (2**34, "16.0 GiB"),
        (512 * 2**30, "512 GiB"),
        (5 * 2**60, "5.00 EiB"),
    ],
)
def test_sizes_have_three_digits_and_a_binary_unit(nbytes: int, shown: str) -> None:
    """A size reads as three digits and a unit, and exact KiB and MiB have no decimals."""
    assert size(nbytes) == shown


@given(st.integers(min_value=1024, max_value=2**63))
def test_a_size_is_never_off_by_more_than_half_a_percent(nbytes: int) -> None:
    """Three digits are honest: the rounding error stays below 0.5 %."""
    number, unit = size(nbytes).replace(",", "").split()
    power = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].index(unit)
    assert abs(float(number) * 1024**power - nbytes) <= nbytes * 0.005


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (999_499, "999 K"),
        (999_500, "1.00 M"),
        (8_030_261_248, "8.03 B"),
        (671_026_419_200, "671 B"),
        (1_000_000_000_000, "1.00 T"),
        (3 * 10**15, "3,000 T"),
    ],
)
def test_counts_are_in_thousands(value: int, shown: str) -> None:
    """Parameters are counted in K, M, B and T of 1,000."""
    assert count(value) == shown


def test_percent_never_hides_a_small_part() -> None:
    """What rounds to nothing but is not nothing reads `<1 %`."""
    assert [percent(0, 9), percent(1, 1000), percent(1, 3), percent(9, 9)] == [
        "0 %",
        "<1 %",
        "33 %",
        "100 %",
    ]


def test_a_ratio_reads_as_a_multiple() -> None:
    """Three digits, and no idle zeros."""
    assert [ratio(144, 2), ratio(9, 2), ratio(57_000, 1_001)] == ["72×", "4.5×", "56.9×"]


@pytest.mark.parametrize(
    ("indices", "shown"),
    [
        (tuple(range(32)), "0-31"),
        (tuple(range(5, 62, 6)), "every 6th from 5 to 59"),  # gemma-3-27b, full attention
        (tuple(range(0, 42, 2)), "every 2nd from 0 to 40"),  # gemma-2-9b, sliding
        ((3, 7, 11), "3,7,11"),
        ((0, 1, 5, 9, 13), "0-1,5,9,13"),
    ],
)
def test_evenly_spread_layers_are_said_in_words(indices: tuple[int, ...], shown: str) -> None:
    """A pattern is easier to read than the list it makes."""
    assert every(indices) == shown


def test_layers_that_keep_the_same_are_one_row() -> None:
    """Alternating layers give two groups, in order of first appearance."""
    sliding = Layer(
        kind=LayerKind.SLIDING, stores=(Grows(heads=8, key=256, value=256, window=4096),)
    )
    full = Layer(kind=LayerKind.FULL, stores=(Grows(heads=8, key=192, value=128),))
    first, second = group_layers((sliding, full) * 3)
    assert (first.kind, first.indices, first.window) == ("sliding_attention", (0, 2, 4), 4096)
    assert (second.indices, second.window) == ((1, 3, 5), None)
    assert (heads(second), dims(second)) == ("8", "K 192, V 128")


def test_steering_characters_are_written_out() -> None:
    """A model's name cannot clear the screen, ring, reorder the line or break the encoding."""
    hostile = "a\x1b[2J\x9b\x07\n\u202eb\ud800"
    assert clean(hostile) == "a\\x1b[2J\\x9b\\x07\\x0a\\u202eb\\ud800"


@given(st.text())
def test_clean_text_holds_nothing_unsafe(text: str) -> None:
    """Whatever comes in, what goes out can be shown, and is bounded."""
    shown = clean(text, 50)
    assert not steers(shown)
    assert len(shown) <= 50 * len("\\u202e")


def test_sizes_that_are_compared_share_a_unit() -> None:
    """1,280 GiB beside 80, not 1.25 TiB; and 0.54 GiB beside 2.14, not 2,196 MiB."""
    gib = 2**30
    assert sizes([1280 * gib, 320 * gib, 80 * gib]) == ["1,280 GiB", "320 GiB", "80.0 GiB"]
    assert sizes([2_302_672_896, 575_668_224]) == ["2.14 GiB", "0.54 GiB"]
    assert sizes([]) == []
