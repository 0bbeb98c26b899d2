"""What a person reads at a terminal."""

from __future__ import annotations

import re
from typing import Any

import pytest
from asked import GEMMA_27B, LLAMA_8B, asked
from hand_made import REPORTS
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from hfkv.render.bars import cells
from hfkv.render.style import Style
from hfkv.render.text import inspect_text


def lines(name: str, **style: Any) -> list[str]:
    """Return the text of one report as lines."""
    return inspect_text(REPORTS[name], Style(**style)).splitlines()


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("width", [40, 80, 140])
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    """Text fits narrow and wide terminals, Chinese and Japanese names counted double."""
    shown = inspect_text(REPORTS[name], Style(width=width), explain=True)
    assert max(cell_len(line) for line in shown.splitlines()) <= width


@pytest.mark.parametrize("name", REPORTS)
def test_without_colour_there_are_no_escapes(name: str) -> None:
    """Neither our own styles nor a hostile name send an escape sequence."""
    assert "\x1b" not in inspect_text(REPORTS[name], Style(color=False))


@pytest.mark.parametrize("name", REPORTS)
def test_colour_changes_no_character(name: str) -> None:
    """With the styles taken out, coloured text is the plain text."""
    coloured = inspect_text(REPORTS[name], Style(color=True))
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == inspect_text(REPORTS[name], Style())


@pytest.mark.parametrize("name", [name for name in REPORTS if name != "latent"])
def test_a_terminal_without_utf8_is_sent_ascii(name: str) -> None:
    """Bars, marks and dashes have plain twins of the same width."""
    plain = inspect_text(REPORTS[name], Style(unicode=False), explain=True)
    assert plain.isascii()
    fancy = inspect_text(REPORTS[name], Style(), explain=True)
    assert [len(line) for line in plain.splitlines()] == [len(line) for line in fancy.splitlines()]


def test_the_answers_come_in_the_order_people_ask() -> None:
    """Fits or not, what it takes, why, what to watch out for, where it comes from."""
    shown = lines("latent")
    titles = [line for line in shown if line and not line.startswith(" ")]
    assert titles == [
        "深度求索/ディープシーク-V3  main d04e592bb4f6",
        "DeepseekV3ForCausalLM, 671 B parameters, int4 (GPTQ), MLA, up to 131,072 tokens",
        "✔ Fits on 8 × H100-SXM5-80GB: 32,768 tokens × 1 sequence. Room for 13 such",
        "sequences.",
        "What it takes",
        "Why",
        "Watch out for",
        "Where the figures come from",
    ]


def test_what_does_not_fit_says_by_how_much_and_what_would_help() -> None:
    """24 GiB x 0.9 - 14.96 - 2 leaves 4.64 GiB of the 16 that are needed: 11.4 are missing."""
    shown = lines("short")
    assert "✘ Does not fit on RTX 4090: short by 11.4 GiB for 131,072 tokens × 1 sequence." in shown
    assert "  left for the cache       4.64 GiB" in shown
    assert any(line.endswith("▲ 21.6 GiB is all there is") for line in shown)
    assert "  --kv-dtype fp8       8.00 GiB  not enough" in shown
    assert "  --context 32k        12.0 GiB  fits" in shown


def test_several_gpus_are_a_table_with_the_smallest_that_fits_named() -> None:
    """2 x 24 GiB is less memory than 79 GiB, so it is the one that is named."""
    shown = lines("several")
    assert shown[3:4] == [
        "✔ Fits on all 3 choices, the smallest 2 × RTX 4090: 131,072 tokens × 1 sequence."
    ]
    assert "  2 × RTX 4090    24.0 GiB  7.48 GiB     12.1 GiB  ✔          1   99,297" in shown


def test_bars_show_the_parts_in_proportion() -> None:
    """Of 79 GiB in 78 cells, 15 of weights, 2 of overhead and 16 of cache are as many cells."""
    (drawn,) = [line.strip() for line in lines("dense") if "█▒" in line]
    assert [drawn.count(glyph) for glyph in "█▒▓░╌"] == [15, 2, 16, 37, 8]


@given(st.lists(st.integers(0, 2**45), max_size=8), st.integers(0, 200))
def test_cells_of_a_bar_add_up(sizes: list[int], width: int) -> None:
    """The parts fill the bar exactly, and only nothing gets no cell where there is room."""
    given_cells = cells(tuple(sizes), width)
    assert sum(given_cells) == (width if any(sizes) else 0)
    assert min(given_cells, default=0) >= 0
    if width >= 2 * len(sizes):
        assert all(
            (share > 0) == (size > 0) for share, size in zip(given_cells, sizes, strict=True)
        )


def test_the_simple_formula_is_shown_with_its_numbers_where_it_applies() -> None:
    """2 x 32 x 8 x 128 x 2 x 131,072 = 17,179,869,184 bytes, 16 GiB."""
    assert " ".join(line.strip() for line in lines("dense")).count(
        "The simple formula applies: 2 × 32 layers × 8 KV heads × 128 wide × 2 bytes × "
        "131,072 tokens × 1 sequence = 16.0 GiB."
    )


def test_the_simple_formula_is_measured_against_the_truth_where_it_does_not() -> None:
    """3 GiB for what takes 842 MiB is 3.65 times too much."""
    text = " ".join(line.strip() for line in lines("hybrid"))
    assert (
        "The simple formula would say 3.00 GiB, 3.65× the truth; it does not apply here: "
        "- 36 of 48 layers keep a state of fixed size instead of keys and values" in text
    )


def test_an_encoder_keeps_nothing_and_that_is_no_failure() -> None:
    """A known zero is told as such."""
    assert "● Needs 420 MiB of weights and keeps no cache." in lines("encoder")


def test_a_hostile_name_is_shown_not_obeyed() -> None:
    """Escapes and line breaks of a repository are written out."""
    assert lines("alien")[0] == "evil/\\x1b[2Jmodel  main d04e592bb4f6"


@pytest.mark.parametrize(
    ("gpu", "said"),
    [
        # weights 14.96 and overhead 1.23 GiB leave 62.96 of 79.15 GiB; 0.9 of them are 56.66
        ("a100-80", "79.1 GiB, weights + overhead + 0.9 × the rest = 72.8 GiB for TensorRT-LLM"),
        ("t4", "Tesla T4: 14.6 GiB for TensorRT-LLM"),  # nothing is left to take a share of
    ],
)
def test_a_share_of_the_rest_is_no_share_of_the_total(gpu: str, said: str) -> None:
    """79.1 GiB × 0.9 are not the 72.8 GiB that TensorRT-LLM may take: no such equation stands."""
    report = asked(LLAMA_8B, gpu, "trtllm", context=65_536)
    shown = inspect_text(report, Style(width=140), explain=True)
    assert said in shown
    assert "weights + overhead + 0.9 × the rest" in shown.split("used for")[1]  # --explain
    assert "memory × 0.9" not in shown
    assert "GiB × 0.9" not in shown


@pytest.mark.parametrize(
    ("version", "said"),
    [("0.12.0", "and what bounds the sequences"), ("0.19.0", "less than a sequence takes")],
)
def test_a_check_of_one_group_bounds_nothing(version: str, said: str) -> None:
    """From 0.14 to 0.19 the check took the blocks of the first of Gemma-3's seven groups."""
    report = asked(GEMMA_27B, "h100", "vllm", context=32_768, engine_version=version)
    text = " ".join(inspect_text(report, Style(width=140)).split())
    assert f"what its start-up check counts, {said}" in text
