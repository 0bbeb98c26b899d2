"""The GPU table keeps three memories apart, and `--gpu` understands how people write them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfkv.core.gpus import Gpu, find_gpu, parse_gpu, table, usable_memory
from hfkv.core.workload import GpuChoice
from hfkv.errors import UsageError

GIB = 2**30
LISTS = "`hfkv gpus` lists them all; a size such as 24gb works too"
SOURCE_CLASSES = {"log", "ds", "sec", "calc", "recall"}


def spellings(gpu: Gpu) -> set[str]:
    """Return what a row may be called, without case, spaces and dashes."""
    names = (gpu.slug, gpu.name, *gpu.aliases)
    return {"".join(c for c in name.casefold() if c.isalnum()) for name in names}


def test_three_memories_are_kept_apart() -> None:
    """An A100 is sold as 80 GB, listed by nvidia-smi as 81920 MiB and seen as 79.14 GiB."""
    a100 = find_gpu("a100-80")
    assert a100.memory_bytes == 80_000_000_000
    assert a100.driver_bytes == 85_899_345_920  # 81920 x 1048576
    assert a100.framework_bytes == 84_975_927_951  # 79.14 x 2^30, rounded down
    assert a100.bandwidth_bytes_per_s == 2_039_000_000_000  # NVIDIA A100 data sheet
    assert a100.bf16_flops == 312_000_000_000_000  # the same
    assert a100.fp8_flops is None  # Ampere has no fp8 tensor cores
    assert a100.sources["framework"] == "log"


def test_decimal_figures_are_read_exactly() -> None:
    """204.8 GB/s is 204,800,000,000 bytes a second, not a float near it."""
    assert find_gpu("jetson-agx-orin-64").bandwidth_bytes_per_s == 204_800_000_000
    assert find_gpu("mi300x").bf16_flops == 1_307_400_000_000_000


def test_a_board_of_two_devices_is_listed_by_the_device() -> None:
    """Software sees half of an MI250X: 64 of 128 GB, half of 3277 GB/s."""
    half = find_gpu("AMD Instinct MI250X")
    assert half.memory_bytes == 64 * 10**9
    assert half.bandwidth_bytes_per_s == 3_277_000_000_000 // 2


def test_no_spelling_means_two_rows() -> None:
    """Every slug, name and alias belongs to one row only and finds it."""
    seen: dict[str, str] = {}
    for gpu in table():
        for spelling in spellings(gpu):
            assert seen.setdefault(spelling, gpu.slug) == gpu.slug
    for gpu in table():
        for name in (gpu.slug, gpu.name, *gpu.aliases):
            assert find_gpu(name) is gpu


@pytest.mark.parametrize("gpu", table(), ids=lambda gpu: gpu.slug)
def test_every_row_is_plausible_and_sourced(gpu: Gpu) -> None:
    """No row lacks a memory, a source class per figure, or the usual order of its memories."""
    assert gpu.memory_bytes or gpu.driver_bytes
    assert set(gpu.sources.values()) <= SOURCE_CLASSES
    assert "memory" in gpu.sources
    assert (gpu.framework_bytes is not None) == ("framework" in gpu.sources)
    assert (gpu.bandwidth_bytes_per_s is not None) == ("bandwidth" in gpu.sources)
    assert (gpu.bf16_flops or gpu.fp8_flops) is None or "flops" in gpu.sources
    if gpu.framework_bytes and gpu.driver_bytes:
        assert gpu.framework_bytes <= gpu.driver_bytes + GIB // 200  # rounded to two decimals
    if gpu.driver_bytes and gpu.memory_bytes and gpu.slug != "b300":  # 288 sold, 269 GiB listed
        assert 0.98 < gpu.driver_bytes / gpu.memory_bytes < 1.08
    assert 10**10 < (gpu.bandwidth_bytes_per_s or 10**12) <= 8 * 10**12


@pytest.mark.parametrize(
    ("text", "slug", "count"),
    [
        ("a100-80", "a100-80", 1),
        ("A100-SXM4-80GB", "a100-80", 1),
        ("NVIDIA A100-SXM4-80GB", "a100-80", 1),
        ("nvidia_a100_sxm4_80gb", "a100-80", 1),
        ("NVIDIA A100 80GB PCIe", "a100-80-pcie", 1),
        ("NVIDIA A100-PCIE-40GB", "a100-40", 1),
        ("NVIDIA H100 80GB HBM3", "h100-80", 1),
        ("NVIDIA H100 NVL", "h100-nvl", 1),
        ("NVIDIA GH200 480GB", "gh200-96", 1),
        ("NVIDIA B300 SXM6 AC", "b300", 1),
        ("NVIDIA L20X", "l20x", 1),
        ("Tesla V100-SXM2-32GB", "v100-32", 1),
        ("Tesla T4", "t4", 1),
        ("Quadro RTX 8000", "rtx8000", 1),
        ("NVIDIA RTX 6000 Ada Generation", "rtx6000-ada", 1),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000", 1),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "rtx4090-laptop", 1),
        ("NVIDIA GeForce RTX 3060", "rtx3060-12", 1),
        ("AMD Radeon RX 7900 XTX", "rx7900xtx", 1),
        ("Apple M3 Max 64GB", "m3-max-64", 1),
        ("RTX 4090", "rtx4090", 1),
        ("rtx4090", "rtx4090", 1),
        ("  rtx-4090 ", "rtx4090", 1),
        ("rtx4090-24gb", "rtx4090", 1),
        ("h100:8", "h100-80", 8),
        ("h100 : 8", "h100-80", 8),
        ("8xh100", "h100-80", 8),
        ("4xrtx4090", "rtx4090", 4),
        ("4 × RTX 4090", "rtx4090", 4),
    ],
)
def test_a_gpu_is_found_as_people_and_tools_write_it(text: str, slug: str, count: int) -> None:
    """Case, spaces, dashes, vendor words and both ways to give a count are understood."""
    (choice,) = parse_gpu(text)
    assert (choice.slug, choice.count) == (slug, count)


@pytest.mark.parametrize(
    ("text", "slug", "name", "count", "size"),
    [
        ("24gb", "24gb", "24 GB GPU", 1, 24_000_000_000),
        ("24GiB", "24gib", "24 GiB GPU", 1, 25_769_803_776),
        ("24gib:2", "24gib", "24 GiB GPU", 2, 25_769_803_776),
        ("2x 1.5 GiB", "1.5gib", "1.5 GiB GPU", 2, 1_610_612_736),
        ("81920mib", "81920mib", "81920 MiB GPU", 1, 85_899_345_920),
    ],
)
def test_a_size_stands_for_an_anonymous_gpu(
    text: str, slug: str, name: str, count: int, size: int
) -> None:
    """GB is 10^9 bytes and GiB 2^30, here and everywhere."""
    assert parse_gpu(text) == (
        GpuChoice(slug=slug, name=name, count=count, memory_bytes=size, memory_source="as given"),
    )


@pytest.mark.parametrize(
    "text", ["H100 x 8", "h100*8", "h100 × 8", "H100 x8", "8 x H100", "h100:8"]
)
def test_a_count_before_or_behind_the_name(text: str) -> None:
    """However people write eight of them."""
    (choice,) = parse_gpu(text)
    assert (choice.slug, choice.count) == ("h100-80", 8)


def test_all_is_every_row_once() -> None:
    """`all` gives each GPU of the table, and `all:2` two of each."""
    assert [choice.slug for choice in parse_gpu("all")] == [gpu.slug for gpu in table()]
    assert {choice.count for choice in parse_gpu("all:2")} == {2}


@pytest.mark.parametrize(
    ("text", "source", "size"),
    [
        ("t4", "framework total", int(Fraction("14.56") * GIB)),
        ("a30", "driver total", 24576 * 2**20),
        ("l40", "marketing size", 48 * 10**9),
        ("m3-max-64", "framework total", int(Fraction("51.84") * GIB)),
        ("m2-8", "estimated Metal limit", 8 * GIB * 2 // 3),
        ("m3-ultra-512", "estimated Metal limit", 384 * GIB),
    ],
)
def test_the_best_known_memory_is_used_and_named(text: str, source: str, size: int) -> None:
    """The framework's total comes first, then the driver's, then the size on the box."""
    (choice,) = parse_gpu(text)
    assert (choice.memory_source, choice.memory_bytes) == (source, size)


def test_the_metal_estimate_never_exceeds_a_reading() -> None:
    """Where Metal's limit was read, two thirds or three quarters are not above it."""
    read = [gpu for gpu in table() if gpu.vendor == "apple" and gpu.framework_bytes]
    assert len(read) >= 8
    for gpu in read:
        blind = Gpu(slug=gpu.slug, name=gpu.name, vendor=gpu.vendor, memory_bytes=gpu.memory_bytes)
        estimate, source = usable_memory(blind)
        assert source == "estimated Metal limit"
        # 21845.34 MiB is 21.33 GiB in the table and two thirds of 32 GiB exactly
        assert estimate <= (gpu.framework_bytes or 0) + GIB // 100


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "a100-81",
            "unknown GPU 'a100-81'",
            "did you mean a100-80, a100-40, a100-80-pcie? " + LISTS,
        ),
        ("rxt4090", "unknown GPU 'rxt4090'", "did you mean rtx4090, rtx4090-48, rtx5090? " + LISTS),
        ("zzz", "unknown GPU 'zzz'", LISTS),
        ("", "unknown GPU ''", LISTS),
        ("nvidia", "unknown GPU 'nvidia'", LISTS),
        ("\x1b[31m", "unknown GPU '\\x1b[31m'", LISTS),
        ("z" * 5000, "unknown GPU '" + "z" * 39 + "…'", LISTS),
        ("24g", "unknown GPU '24g'", "a size needs its unit, such as 24gb or 24gib"),
        (
            "Apple M3 Max",
            "'Apple M3 Max' could be several GPUs",
            "one of m3-max-36, m3-max-48, m3-max-64, m3-max-96, m3-max-128",
        ),
        (
            "auto",
            "'auto' can only be given alone, on the command line",
            "name the GPU instead, for example --gpu a100-80",
        ),
        (
            "h100 8",  # one candidate is not several
            "unknown GPU 'h100 8'",
            "did you mean h100-80, h100-nvl, h100-pcie? " + LISTS,
        ),
        (
            "h100 x 0",
            "the number of GPUs in 'h100 x 0' is not a count from 1 to 1024",
            "write 8xh100 or h100:8",
        ),
        (
            "8xh100 x 2",
            "the count is given twice in '8xh100 x 2'",
            "write 8xh100 or h100:8",
        ),
        (
            "h100:0",
            "the number of GPUs in 'h100:0' is not a count from 1 to 1024",
            "write 8xh100 or h100:8",
        ),
        (
            "1025xh100",
            "the number of GPUs in '1025xh100' is not a count from 1 to 1024",
            "write 8xh100 or h100:8",
        ),
        (
            "h100:two",
            "the number of GPUs in 'h100:two' is not a count from 1 to 1024",
            "write 8xh100 or h100:8",
        ),
        (
            "h100:-2",
            "the number of GPUs in 'h100:-2' is not a count from 1 to 1024",
            "write 8xh100 or h100:8",
        ),
        ("2xh100:3", "the count is given twice in '2xh100:3'", "write 8xh100 or h100:8"),
        ("0gb", "no GPU has 0gb of memory", "sizes from 100mb to 10000gb"),
        ("10001gb", "no GPU has 10001gb of memory", "sizes from 100mb to 10000gb"),
    ],
)
def test_nonsense_is_refused_by_a_sentence(text: str, message: str, hint: str) -> None:
    """A typo, a bad count or an impossible size says what is wrong and what to write."""
    with pytest.raises(UsageError) as error:
        parse_gpu(text)
    assert (str(error.value), error.value.hint) == (message, hint)


@given(st.text(max_size=60))
def test_any_text_gives_gpus_or_a_usage_error(text: str) -> None:
    """No text at all makes the parser fail in another way."""
    try:
        choices = parse_gpu(text)
    except UsageError:
        return
    assert all(1 <= choice.count <= 1024 and choice.memory_bytes > 0 for choice in choices)


@given(st.integers(1, 1024), st.sampled_from(table()))
def test_a_count_may_stand_before_or_after(count: int, gpu: Gpu) -> None:
    """`8xNAME` and `NAME:8` are the same for every name of the table."""
    assert parse_gpu(f"{count}x{gpu.slug}") == parse_gpu(f"{gpu.name}:{count}")
