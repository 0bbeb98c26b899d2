"""`--gpu auto`: what this machine's own tools list."""

from __future__ import annotations

from pathlib import Path

import pytest

from hfkv.core.workload import GpuChoice
from hfkv.errors import UsageError
from hfkv.sources.machine import machine_gpus

HINT = "name one instead, for example --gpu a100-80; `hfkv gpus` lists them"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is the whole PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def put(folder: Path, name: str, script: str) -> None:
    """Write a tool that does what a shell script says."""
    tool = folder / name
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)


def test_a_machine_without_gpus_says_so(tools: Path) -> None:
    """One sentence, and what to do instead."""
    assert tools.is_dir()
    with pytest.raises(UsageError) as caught:
        machine_gpus()
    assert caught.value.message == (
        "no GPU was found: nvidia-smi, rocm-smi and amd-smi are not on this machine"
    )
    assert caught.value.hint == HINT


def test_nvidia_gpus_are_counted_by_kind(tools: Path) -> None:
    """Two A100s are one choice of two, at the 79.14 GiB that CUDA sees of 81,920 MiB.

    The fuller one has 40,000 MiB left.
    """
    put(
        tools,
        "nvidia-smi",
        'echo "NVIDIA A100-SXM4-80GB, 81920, 81038"\n'
        'echo "NVIDIA A100-SXM4-80GB, 81920, 40000"\n'
        'echo "NVIDIA L4, 23034, [N/A]"',
    )
    first, second = machine_gpus()
    assert (first.slug, first.count, first.memory_source) == ("a100-80", 2, "framework total")
    assert 79 * 2**30 < first.memory_bytes < 80 * 2**30
    assert first.free_bytes == 40_000 * 2**20
    assert (second.slug, second.count, second.free_bytes) == ("l4", 1, None)


def test_a_slice_of_a_gpu_is_taken_at_its_own_size(tools: Path) -> None:
    """A MIG or vGPU share is not the whole card: 20,096 MiB are 21,072,183,296 bytes."""
    put(tools, "nvidia-smi", 'echo "NVIDIA A100-SXM4-80GB, 20096, 20000"')
    assert machine_gpus() == (
        GpuChoice(
            slug="a100-80",
            name="NVIDIA A100-SXM4-80GB",
            count=1,
            memory_bytes=20096 * 2**20,
            memory_source="driver total",
            free_bytes=20000 * 2**20,
        ),
    )


def test_a_gpu_nobody_has_seen_is_taken_at_its_own_size(tools: Path) -> None:
    """The table need not know a card that is there."""
    put(tools, "nvidia-smi", 'echo "NVIDIA Z9000, 65536, 65000"')
    (choice,) = machine_gpus()
    assert (choice.slug, choice.memory_bytes) == ("NVIDIA Z9000", 2**36)


def test_a_gpu_that_shares_the_systems_memory_is_looked_up(tools: Path) -> None:
    """nvidia-smi states no memory for a GB10; without a row there is nothing to go by."""
    put(tools, "nvidia-smi", 'echo "NVIDIA Z9000, [N/A], [N/A]"')
    with pytest.raises(UsageError) as caught:
        machine_gpus()
    assert caught.value.message == "no GPU was found: the memory of NVIDIA Z9000 is not stated"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (
            "echo 'NVIDIA-SMI has failed.\nMore.' >&2; exit 9",
            "nvidia-smi failed: NVIDIA-SMI has failed.",
        ),
        ("exit 6", "nvidia-smi failed: no reason given"),
        ("echo 'No devices were found'", "its tool lists none"),
    ],
)
def test_a_tool_that_fails_is_quoted(tools: Path, script: str, why: str) -> None:
    """The first line of what it said is the reason."""
    put(tools, "nvidia-smi", script)
    with pytest.raises(UsageError) as caught:
        machine_gpus()
    assert caught.value.message == f"no GPU was found: {why}"


def test_a_tool_that_cannot_start_is_named(tools: Path) -> None:
    """A tool for another machine is no traceback."""
    put(tools, "nvidia-smi", "")
    (tools / "nvidia-smi").write_bytes(b"\x7fELF but not really")
    with pytest.raises(UsageError) as caught:
        machine_gpus()
    assert caught.value.message == "no GPU was found: nvidia-smi gave no answer"


def test_amd_gpus_are_read_from_rocm_smi(tools: Path) -> None:
    """An MI300X lists 206,141,652,992 bytes of VRAM; one of the two has 6,141,652,992 in use."""
    card = '{"Card Series": "AMD Instinct MI300X", "VRAM Total Memory (B)": "206141652992"'
    busy = f'{card}, "VRAM Total Used Memory (B)": "6141652992"}}'
    put(tools, "rocm-smi", f"""echo '{{"card0": {card}}}, "card1": {busy}, "system": {{}}}}'""")
    (choice,) = machine_gpus()
    assert (choice.slug, choice.count) == ("mi300x", 2)
    assert choice.free_bytes == 200_000_000_000


@pytest.mark.parametrize("form", ["[{card}]", '{{"gpu_data": [{card}]}}'])
def test_amd_gpus_are_read_from_amd_smi(form: str, tools: Path) -> None:
    """Where there is no rocm-smi, its successor lists the same card: 196,608 MB."""
    card = (
        '{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X"},'
        ' "vram": {"type": "HBM3", "size": {"value": 196608, "unit": "MB"}}}'
    )
    put(tools, "amd-smi", f"echo '{form.format(card=card)}'")
    (choice,) = machine_gpus()
    assert (choice.slug, choice.count, choice.free_bytes) == ("mi300x", 1, None)


APPLE = """case "$2" in
machdep*) printf 'Apple M1 Max\\n34359738368\\n';;
*) echo {limit};;
esac"""


@pytest.mark.parametrize(
    ("limit", "nbytes", "source"),
    [
        # Metal's own limit on 32 GB, as ggml-org/llama.cpp#2011 logs it: 21.33 GiB
        (0, 2133 * 2**30 // 100, "framework total"),
        (28_672, 28 * 2**30, "iogpu.wired_limit_mb"),
    ],
)
def test_an_apple_gpu_may_wire_a_part_of_the_memory(
    limit: int, nbytes: int, source: str, tools: Path
) -> None:
    """The working-set limit is what counts, Metal's own or the one that was raised."""
    put(tools, "sysctl", APPLE.format(limit=limit))
    (choice,) = machine_gpus()
    assert (choice.slug, choice.count) == ("m1-max-32", 1)
    assert (choice.memory_bytes, choice.memory_source) == (nbytes, source)


def test_an_apple_gpu_nobody_has_seen_gets_an_estimate(tools: Path) -> None:
    """Three quarters of 100 GiB, the lowest share seen above 36."""
    script = (
        APPLE.format(limit=0).replace("M1 Max", "M9 Max").replace("34359738368", "107374182400")
    )
    put(tools, "sysctl", script)
    (choice,) = machine_gpus()
    assert (choice.slug, choice.name) == ("Apple M9 Max 100GB", "Apple M9 Max 100GB")
    assert (choice.memory_bytes, choice.memory_source) == (75 * 2**30, "estimated Metal limit")


def test_sysctl_of_another_system_is_no_apple(tools: Path) -> None:
    """Linux and Intel Macs have a sysctl too."""
    for script in ("echo 'sysctl: cannot stat' >&2; exit 255", "printf 'Intel(R) i9\\n1\\n'"):
        put(tools, "sysctl", script)
        with pytest.raises(UsageError):
            machine_gpus()


@pytest.mark.parametrize("tool", ["rocm-smi", "amd-smi"])
@pytest.mark.parametrize("answer", ["not json", "1", '{"card0": {}}', '{"card0": 1}', "[1]"])
def test_an_answer_that_makes_no_sense(tools: Path, answer: str, tool: str) -> None:
    """Another version's format ends in a sentence."""
    put(tools, tool, f"echo '{answer}'")
    with pytest.raises(UsageError) as caught:
        machine_gpus()
    assert caught.value.message == f"no GPU was found: {tool}'s answer could not be read"
