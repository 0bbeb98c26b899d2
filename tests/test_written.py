"""Values as people write them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hfkv.core import written


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("8192", 8192),
        ("131_072", 131072),
        ("32k", 32 * 1024),
        ("32K", 32 * 1024),
        ("1m", 1024 * 1024),
        ("1.5k", 1536),
        ("max", None),
        ("MAX", None),
    ],
)
def test_context_is_read_in_binary_thousands(text: str, tokens: int | None) -> None:
    """A k is 1,024 tokens, and max leaves the choice to the model."""
    assert written.context(text) == tokens


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "'' is not a number of tokens such as 8192 or 32k, or max"),
        ("-1", "'-1' is not a number of tokens such as 8192 or 32k, or max"),
        ("32kb", "'32kb' is not a number of tokens such as 8192 or 32k, or max"),
        ("٣", "'٣' is not a number of tokens such as 8192 or 32k, or max"),
        ("1.3k", "'1.3k' is not a whole number of tokens (k is 1024)"),
        ("0", "'0' is not between 1 and 1,000,000,000,000 tokens"),
        ("1" * 16, "'1111111111111111' is not between 1 and 1,000,000,000,000 tokens"),
    ],
)
def test_a_context_that_means_nothing_is_refused(text: str, sentence: str) -> None:
    """The sentence shows what was written and what would do."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the whole message is compared
        written.context(text)
    assert str(caught.value) == sentence


def test_no_source_tokens_is_a_number_of_source_tokens() -> None:
    """A vision model that is sent no image holds no image positions."""
    assert written.source_tokens("0") == 0


def test_lengths_are_read_one_by_one() -> None:
    """`1200,8k` is two lengths, in the order given."""
    assert written.lengths("1200, 8k,8k,32k") == (1200, 8192, 8192, 32768)


@pytest.mark.parametrize("text", ["", ",", "1200,,x"])
def test_lengths_that_are_none_are_refused(text: str) -> None:
    """An empty list, and a word in it that is no number."""
    with pytest.raises(ValueError, match=r"lengths|number of tokens"):
        written.lengths(text)


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("2gib", 2 * 2**30),
        ("2GiB", 2 * 2**30),
        ("2gb", 2 * 10**9),
        ("1.5 gib", 3 * 2**29),
        ("512mib", 2**29),
        ("4096b", 4096),
        ("0", 0),
    ],
)
def test_sizes_have_binary_and_decimal_units(text: str, nbytes: int) -> None:
    """A gib is 2^30 and a gb is 10^9, exactly."""
    assert written.size(text) == nbytes


@pytest.mark.parametrize("text", ["2", "2g", "gib", "-1gib", "1e9b", "nan"])
def test_a_size_without_a_unit_is_refused(text: str) -> None:
    """Nobody means two bytes by `2`, and `2g` could be either."""
    with pytest.raises(ValueError, match=r"is not a size such as 2gib \(2\^30\) or 2gb \(10\^9\)"):
        written.size(text)


@pytest.mark.parametrize(
    ("text", "exact"),
    [("0.9", Fraction(9, 10)), (".92", Fraction(23, 25)), ("1", 1), ("90%", Fraction(9, 10))],
)
def test_a_share_is_an_exact_fraction(text: str, exact: Fraction) -> None:
    """0.9 is nine tenths, not the nearest float."""
    assert written.share(text) == exact


@pytest.mark.parametrize("text", ["0", "1.1", "-0.5", "nan", "101%", "", "%", "9/10"])
def test_a_share_is_above_nothing_and_up_to_all(text: str) -> None:
    """What is no share of a GPU is refused."""
    with pytest.raises(ValueError, match=r"is not a share such as 0\.9, above 0 and up to 1"):
        written.share(text)


@pytest.mark.parametrize(("text", "limit"), [("60", 60.0), ("0.5", 0.5), ("90s", 90.0)])
def test_seconds(text: str, limit: float) -> None:
    """A limit in seconds, with or without its unit."""
    assert written.seconds(text) == limit


@pytest.mark.parametrize("text", ["0", "0.000", "-1", "nan", "inf", "1h"])
def test_a_time_limit_is_above_nothing(text: str) -> None:
    """NaN compares to nothing and would never end."""
    with pytest.raises(ValueError, match="is not a number of seconds above 0"):
        written.seconds(text)


@pytest.mark.parametrize("text", ["0", "-1", "1.0", "²", "1000000001", "9" * 5000, ""])
def test_a_count_is_a_whole_number(text: str) -> None:
    """A number of sequences or GPUs is counted, and a monstrous one is refused at once."""
    with pytest.raises(ValueError, match="is not a whole number from 1 to 1,000,000,000"):
        written.whole(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [("7b", 7 * 10**9), ("8.03B", 8_030_000_000), ("350m", 350_000_000), ("1_000", 1000)],
)
def test_parameters_are_counted_in_decimal_thousands(text: str, count: int) -> None:
    """A b is 10^9, as in the names of models."""
    assert written.parameters(text) == count


@pytest.mark.parametrize("text", ["", "b", "-7b", "7gb", "0", "7e9", "9999999t"])
def test_a_number_of_parameters_that_is_none_is_refused(text: str) -> None:
    """Sizes have an option of their own."""
    with pytest.raises(ValueError, match="is not a number of parameters such as 7b or 350m"):
        written.parameters(text)


def test_counts_and_latents_are_lists_and_sums_of_whole_numbers() -> None:
    """`1, 8` is two batches, `512+64` one vector of 576."""
    assert written.counts("1, 8") == (1, 8)
    assert written.latent("512+64") == written.latent("576") == 576
    for read, text in ((written.counts, "1,,2"), (written.latent, "512+"), (written.latent, "x")):
        with pytest.raises(ValueError, match="is not a whole number from 1 to 1,000,000,000"):
            read(text)


def test_a_window_is_in_all_layers_or_in_some() -> None:
    """`4096` is in every layer, `4k:5/6` in 5 of 6."""
    assert written.window("4096") == (4096, 1, 1)
    assert written.window("4k:5/6") == (4096, 5, 6)


@pytest.mark.parametrize("text", ["4096:5", "4096:5/x", ":5/6", "4096:/6", "4096:-1/6"])
def test_a_window_that_is_none_is_refused(text: str) -> None:
    """The sentence shows both ways to write one."""
    sentence = f"{text!r} is not a window such as 4096, or 4096:5/6 for 5 of 6 layers"
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the whole message is compared
        written.window(text)
    assert str(caught.value) == sentence
