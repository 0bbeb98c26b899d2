"""The GPUs of this machine, as its own tools list them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter

from hfkv.core.gpus import find_gpu, usable_memory
from hfkv.core.workload import GpuChoice
from hfkv.errors import UsageError

__all__ = ["machine_gpus"]

_PATIENCE = 20  # seconds: nvidia-smi may first have to wake the driver

_NVIDIA = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
_AMD = ("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json")


def machine_gpus() -> tuple[GpuChoice, ...]:
    """Return the GPUs of this machine, one choice a kind.

    Raises UsageError when no tool is there to ask, it fails, or it lists none.
    """
    if shutil.which(_NVIDIA[0]):
        found = _read_nvidia(_ask(_NVIDIA))
    elif shutil.which(_AMD[0]):
        found = _read_amd(_ask(_AMD))
    else:
        raise _none("neither nvidia-smi nor rocm-smi is on this machine")
    if not found:
        raise _none("its tool lists none")
    return tuple(_choice(name, memory, count) for (name, memory), count in Counter(found).items())


def _none(why: str) -> UsageError:
    return UsageError(
        f"no GPU was found: {why}",
        hint="name one instead, for example --gpu a100-80; `hfkv gpus` lists them",
        code="gpu",
    )


def _ask(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(  # noqa: S603  a fixed command
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _none(f"{command[0]} gave no answer") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[0]
        raise _none(f"{command[0]} failed: {said[:200]}")
    return done.stdout


def _read_nvidia(text: str) -> list[tuple[str, int | None]]:
    """Return name and bytes of each line of `NVIDIA A100-SXM4-80GB, 81920` (MiB)."""
    rows = [line.rpartition(",") for line in text.splitlines() if "," in line]
    return [(name.strip(), _mebibytes(memory.strip())) for name, _, memory in rows]


def _mebibytes(text: str) -> int | None:
    """Return the bytes, None for the `[N/A]` of a GPU that shares the system's memory."""
    return int(text) * 2**20 if text.isdecimal() else None


def _read_amd(text: str) -> list[tuple[str, int | None]]:
    """Return name and bytes of each card of rocm-smi's JSON."""
    try:
        cards = json.loads(text)
        rows = [card for key, card in cards.items() if key.startswith("card")]
        return [
            (
                str(card.get("Card Series") or card.get("Card series") or "AMD GPU"),
                int(card["VRAM Total Memory (B)"]),
            )
            for card in rows
        ]
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise _none("rocm-smi's answer could not be read") from error


def _choice(name: str, memory: int | None, count: int) -> GpuChoice:
    """Return one kind of GPU; the table knows what a framework sees of a card it knows.

    A driver total far from the table's is a partition (MIG, vGPU) and is taken as it is.
    """
    try:
        row = find_gpu(name)
    except UsageError:
        row = None
    if row is not None and (
        memory is None or _same_card(memory, row.driver_bytes or row.memory_bytes)
    ):
        usable, source = usable_memory(row)
        return GpuChoice(
            slug=row.slug, name=row.name, count=count, memory_bytes=usable, memory_source=source
        )
    if memory is None:
        raise _none(f"the memory of {name} is not stated")
    slug = row.slug if row is not None else name
    return GpuChoice(
        slug=slug, name=name, count=count, memory_bytes=memory, memory_source="driver total"
    )


def _same_card(memory: int, listed: int | None) -> bool:
    return listed is not None and abs(memory - listed) * 8 < listed
