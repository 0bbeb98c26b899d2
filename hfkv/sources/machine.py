"""The GPUs of this machine, as its own tools list them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

from hfkv.core.gpus import find_gpu, metal_limit, usable_memory
from hfkv.core.record import dataclass
from hfkv.core.workload import GpuChoice
from hfkv.errors import UsageError

__all__ = ["machine_gpus"]

_PATIENCE = 20  # seconds: nvidia-smi may first have to wake the driver
_MIB = 2**20

_NVIDIA = (
    "nvidia-smi",
    "--query-gpu=name,memory.total,memory.free",
    "--format=csv,noheader,nounits",
)
_ROCM = ("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json")
_AMD = ("amd-smi", "static", "--asic", "--vram", "--json")
_APPLE = ("sysctl", "-n", "machdep.cpu.brand_string", "hw.memsize")
_APPLE_LIMIT = ("sysctl", "-n", "iogpu.wired_limit_mb")


@dataclass(frozen=True, slots=True)
class _Device:
    """One device as a tool lists it; what the tool does not state is None."""

    name: str
    memory: int | None
    free: int | None = None


def machine_gpus() -> tuple[GpuChoice, ...]:
    """Return the GPUs of this machine, one choice a kind.

    Raises UsageError when no tool is there to ask, it fails, or it lists none.
    """
    for command, read in _TOOLS.items():
        if shutil.which(command[0]):
            found = read(_ask(command))
            if not found:
                raise _none("its tool lists none")
            return _choices(found)
    apple = _apple()
    if apple is None:
        raise _none("nvidia-smi, rocm-smi and amd-smi are not on this machine")
    return (apple,)


def _choices(found: list[_Device]) -> tuple[GpuChoice, ...]:
    kinds: dict[tuple[str, int | None], list[_Device]] = {}
    for device in found:
        kinds.setdefault((device.name, device.memory), []).append(device)
    return tuple(_choice(alike) for alike in kinds.values())


def _none(why: str) -> UsageError:
    return UsageError(
        f"no GPU was found: {why}",
        hint="name one instead, for example --gpu a100-80; `hfkv gpus` lists them",
        code="gpu",
    )


def _run(command: tuple[str, ...]) -> subprocess.CompletedProcess[str] | None:
    """Run a tool; None when it gives no answer."""
    try:
        return subprocess.run(  # noqa: S603  a fixed command
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _ask(command: tuple[str, ...]) -> str:
    done = _run(command)
    if done is None:
        raise _none(f"{command[0]} gave no answer")
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[0]
        raise _none(f"{command[0]} failed: {said[:200]}")
    return done.stdout


def _read_nvidia(text: str) -> list[_Device]:
    """Return what each line of `NVIDIA A100-SXM4-80GB, 81920, 81038` (MiB) says."""
    rows = [line.rsplit(",", 2) for line in text.splitlines() if line.count(",") >= 2]
    return [
        _Device(name.strip(), _mebibytes(total.strip()), _mebibytes(free.strip()))
        for name, total, free in rows
    ]


def _mebibytes(text: str) -> int | None:
    """Return the bytes, None for the `[N/A]` of a GPU that shares the system's memory."""
    return int(text) * _MIB if text.isdecimal() else None


def _read_rocm(text: str) -> list[_Device]:
    """Return each card of rocm-smi's JSON."""
    return _of_json("rocm-smi", text, _rocm_cards)


def _rocm_cards(answer: Any) -> list[_Device]:
    cards = [card for key, card in answer.items() if key.startswith("card")]
    return [_rocm_card(card) for card in cards]


def _rocm_card(card: Any) -> _Device:
    name = str(card.get("Card Series") or card.get("Card series") or "AMD GPU")
    total, used = int(card["VRAM Total Memory (B)"]), card.get("VRAM Total Used Memory (B)")
    return _Device(name, total, None if used is None else total - int(used))


def _read_amd(text: str) -> list[_Device]:
    """Return each GPU of amd-smi's JSON, a list or an object that holds one."""
    return _of_json("amd-smi", text, _amd_cards)


def _amd_cards(answer: Any) -> list[_Device]:
    cards = answer["gpu_data"] if isinstance(answer, dict) else answer
    return [
        _Device(str(card["asic"]["market_name"]), int(card["vram"]["size"]["value"]) * _MIB)
        for card in cards
    ]


def _of_json(tool: str, text: str, read: Callable[[Any], list[_Device]]) -> list[_Device]:
    try:
        return read(json.loads(text))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise _none(f"{tool}'s answer could not be read") from error


_TOOLS: dict[tuple[str, ...], Callable[[str], list[_Device]]] = {
    _NVIDIA: _read_nvidia,
    _ROCM: _read_rocm,
    _AMD: _read_amd,
}


def _apple() -> GpuChoice | None:
    """Return an Apple GPU, which may wire a part of the machine's memory; None elsewhere.

    The limit is `iogpu.wired_limit_mb` where it was raised, else Metal's own.
    """
    done = _run(_APPLE)
    name, _, memory = done.stdout.strip().partition("\n") if done else ("", "", "")
    if not name.startswith("Apple ") or not memory.isdecimal():
        return None
    limit = _run(_APPLE_LIMIT)
    raised = _mebibytes(limit.stdout.strip()) if limit and not limit.returncode else None
    sold = f"{name} {int(memory) // 2**30}GB"
    try:
        row = find_gpu(sold)
        usable, source = usable_memory(row)
    except UsageError:
        row, usable, source = None, metal_limit(int(memory)), "estimated Metal limit"
    return GpuChoice(
        slug=row.slug if row else sold,
        name=sold,
        count=1,
        memory_bytes=raised or usable,
        memory_source="iogpu.wired_limit_mb" if raised else source,
    )


def _choice(alike: list[_Device]) -> GpuChoice:
    """Return one kind of GPU; the table knows what a framework sees of a card it knows.

    A driver total far from the table's is a partition (MIG, vGPU) and is taken as it is.
    """
    name, memory, count = alike[0].name, alike[0].memory, len(alike)
    free = min((device.free for device in alike if device.free is not None), default=None)
    try:
        row = find_gpu(name)
    except UsageError:
        row = None
    if row is not None and (
        memory is None or _same_card(memory, row.driver_bytes or row.memory_bytes)
    ):
        usable, source = usable_memory(row)
        return GpuChoice(
            slug=row.slug,
            name=row.name,
            count=count,
            memory_bytes=usable,
            memory_source=source,
            free_bytes=free,
        )
    if memory is None:
        raise _none(f"the memory of {name} is not stated")
    return GpuChoice(
        slug=row.slug if row is not None else name,
        name=name,
        count=count,
        memory_bytes=memory,
        memory_source="driver total",
        free_bytes=free,
    )


def _same_card(memory: int, listed: int | None) -> bool:
    return listed is not None and abs(memory - listed) * 8 < listed
