"""GPU rows and the `--gpu` grammar.

Three memories are kept apart, because they differ by up to 8 %: the size a card is sold
under, what the driver lists, and what a framework can see. Only the last can be filled.
"""

from __future__ import annotations

import functools
import re
from dataclasses import field
from fractions import Fraction
from pkgutil import get_data
from typing import Any

from hfkv.core.record import dataclass
from hfkv.core.workload import GpuChoice
from hfkv.errors import UsageError

__all__ = [
    "BLACKWELL",
    "HOPPER",
    "Gpu",
    "capability",
    "find_gpu",
    "metal_limit",
    "parse_gpu",
    "row_of",
    "table",
    "usable_memory",
]

HOPPER, BLACKWELL = 9, 10  # major compute capabilities; 10 is the datacenter kind
_GIB = 2**30
_MAX_COUNT = 1024
_MIN_SIZE, _MAX_SIZE = 10**8, 10**13
_UNITS = {"mb": 10**6, "mib": 2**20, "gb": 10**9, "gib": _GIB}
_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(mb|mib|gb|gib)", re.IGNORECASE)
_PREFIX = re.compile(r"([0-9]+) ?[x×*] ?(\S.*)", re.IGNORECASE)
_BEHIND = re.compile(r"(.+?)(?: x ?| ?[*×] ?)([0-9]{1,9})", re.IGNORECASE)
# Words that vendors print around a name and that never tell two rows apart.
_NOISE = re.compile(
    "(?<![a-z0-9])"
    "(amd|apple|geforce|generation|gpu|graphics|instinct|intel|nvidia|quadro|radeon|tesla)"
    "(?![a-z0-9])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One device as software sees it; a figure that nobody has seen is None.

    `memory_bytes` is the size it is sold under, `driver_bytes` the driver's total,
    `framework_bytes` the lowest total seen by CUDA, HIP or Metal. `framework_bytes` was
    published in GiB with two decimals, so it is exact to about 5 MB. Rates are dense.
    `sources` says how each figure is known (log, ds, sec, calc, recall).
    """

    slug: str
    name: str
    vendor: str
    aliases: tuple[str, ...] = ()
    memory_bytes: int | None = None
    driver_bytes: int | None = None
    framework_bytes: int | None = None
    bandwidth_bytes_per_s: int | None = None
    bf16_flops: int | None = None
    fp8_flops: int | None = None
    compute_capability: str | None = None
    unified: bool = False
    sources: dict[str, str] = field(default_factory=dict)
    references: tuple[str, ...] = ()
    notes: str | None = None

    @property
    def capability(self) -> int | None:
        """Return the major compute capability (9 is Hopper), None where there is none."""
        major = (self.compute_capability or "").split(".")[0]
        return int(major) if major.isdecimal() else None


@functools.cache
def table() -> tuple[Gpu, ...]:
    """Return every GPU row, in the order of `gpus.toml`, read once."""
    import tomllib  # noqa: PLC0415  most runs name no GPU

    raw = get_data("hfkv.core", "gpus.toml")
    assert raw is not None
    rows = tomllib.loads(raw.decode(), parse_float=Fraction)  # 79.14 stays 79.14
    return tuple(_gpu(slug, row) for slug, row in rows.items())


def row_of(slug: str) -> Gpu | None:
    """Return the row of a choice, None for a card that is known by its memory alone."""
    return _by_slug().get(slug)


@functools.cache
def _by_slug() -> dict[str, Gpu]:
    return {row.slug: row for row in table()}


def capability(gpu: GpuChoice) -> int:
    """Return the major compute capability; AMD's and unknown cards count as Hopper."""
    row = row_of(gpu.slug)
    return (row.capability if row is not None else None) or HOPPER


def _gpu(slug: str, row: dict[str, Any]) -> Gpu:
    def scaled(key: str, unit: int) -> int | None:
        return int(row[key] * unit) if key in row else None

    return Gpu(
        slug=slug,
        name=row["name"],
        vendor=row["vendor"],
        aliases=tuple(row.get("aliases", ())),
        memory_bytes=scaled("memory_gb", 10**9),
        driver_bytes=scaled("driver_mib", 2**20),
        framework_bytes=scaled("framework_gib", _GIB),
        bandwidth_bytes_per_s=scaled("bandwidth_gbs", 10**9),
        bf16_flops=scaled("bf16_tflops", 10**12),
        fp8_flops=scaled("fp8_tflops", 10**12),
        compute_capability=row.get("compute_capability"),
        unified=row.get("unified", False),
        sources=row["sources"],
        references=tuple(row.get("references", ())),
        notes=row.get("notes"),
    )


def usable_memory(gpu: Gpu) -> tuple[int, str]:
    """Return the bytes an engine can count on, and which of the memories that is.

    Apple's GPUs may wire only a part of the unified memory.
    """
    if gpu.framework_bytes is not None:
        return gpu.framework_bytes, "framework total"
    if gpu.driver_bytes is not None:
        return gpu.driver_bytes, "driver total"
    sold = gpu.memory_bytes
    assert sold is not None, f"{gpu.slug} has no memory at all"
    if gpu.vendor == "apple":
        return metal_limit(sold // 10**9 * _GIB), "estimated Metal limit"  # Apple's GB are GiB
    return sold, "marketing size"


def metal_limit(memory: int) -> int:
    """Return what Metal lets a GPU wire of a machine's memory, where nobody has seen it.

    Two thirds up to 36 GiB and three quarters above, the lowest shares seen on any.
    Source: `recommendedMaxWorkingSetSize` in ollama/ollama#434, ggml-org/llama.cpp#3213.
    """
    return memory * 2 // 3 if memory <= 36 * _GIB else memory * 3 // 4


def find_gpu(text: str) -> Gpu:
    """Return the row that `text` names: a slug, an alias or what a tool prints.

    Case, spaces, dashes and the vendor's words do not matter. Raises UsageError with the
    nearest names when there is none.
    """
    found = _index().get(_key(text))
    if found is None:
        raise _unknown(text)
    return found


def parse_gpu(text: str) -> tuple[GpuChoice, ...]:
    """Read one `--gpu` value: `a100-80`, `8xh100`, `h100:8`, `24gb`, `24gib:2`, `all`.

    `gb` is 10^9 bytes and `gib` 2^30. Raises UsageError for an unknown name, a count
    outside 1 to 1024 and a size no GPU has. `auto` looks at the machine and is the command
    line's to answer.
    """
    name, count = _count(" ".join(text.split()))
    folded = name.casefold()
    if folded == "auto":
        raise UsageError(
            "'auto' can only be given alone, on the command line",
            hint="name the GPU instead, for example --gpu a100-80",
            code="gpu",
        )
    if folded == "all":
        return tuple(_choice(gpu, count) for gpu in table())
    if size := _SIZE.fullmatch(name):
        return (_anonymous(size[1], size[2].casefold(), count),)
    return (_choice(find_gpu(name), count),)


def _choice(gpu: Gpu, count: int) -> GpuChoice:
    memory, source = usable_memory(gpu)
    return GpuChoice(
        slug=gpu.slug, name=gpu.name, count=count, memory_bytes=memory, memory_source=source
    )


def _anonymous(number: str, unit: str, count: int) -> GpuChoice:
    size = int(Fraction(number) * _UNITS[unit])
    if not _MIN_SIZE <= size <= _MAX_SIZE:
        raise UsageError(
            f"no GPU has {number}{unit} of memory", hint="sizes from 100mb to 10000gb", code="gpu"
        )
    proper = {"mb": "MB", "mib": "MiB", "gb": "GB", "gib": "GiB"}[unit]
    return GpuChoice(
        slug=f"{number}{unit}",
        name=f"{number} {proper} GPU",
        count=count,
        memory_bytes=size,
        memory_source="as given",
    )


def _count(text: str) -> tuple[str, int]:
    """Split `8xNAME`, `NAME:8`, `NAME x 8` and `NAME*8` into name and count, 1 for no count."""
    behind, shown = _BEHIND.fullmatch(text), _shown(text)
    if behind:
        text = f"{behind[1]}:{behind[2]}"
    prefix = _PREFIX.fullmatch(text)
    name, colon, suffix = (prefix[2] if prefix else text).partition(":")
    if prefix and colon:
        raise UsageError(
            f"the count is given twice in {shown}",
            hint="write 8xh100 or h100:8",
            code="gpu",
        )
    digits = prefix[1] if prefix else suffix.strip() if colon else "1"
    count = int(digits) if re.fullmatch("[0-9]{1,9}", digits) else 0
    if not 1 <= count <= _MAX_COUNT:
        raise UsageError(
            f"the number of GPUs in {shown} is not a count from 1 to {_MAX_COUNT}",
            hint="write 8xh100 or h100:8",
            code="gpu",
        )
    return name.strip(), count


def _key(text: str) -> str:
    return re.sub("[^a-z0-9]", "", _NOISE.sub("", text.casefold()))


@functools.cache
def _index() -> dict[str, Gpu]:
    """Return every spelling of every row; `rtx4090-24gb` stands beside `rtx4090`."""
    index: dict[str, Gpu] = {}
    for gpu in table():
        for spelling in (gpu.slug, gpu.name, *gpu.aliases):
            index.setdefault(_key(spelling), gpu)
    for gpu in table():
        size = f"{(gpu.memory_bytes or 0) // 10**9}gb"
        for spelling in (gpu.slug, *gpu.aliases):
            index.setdefault(_key(spelling) + size, gpu)
    return index


def _unknown(text: str) -> UsageError:
    key = _key(text[:80])
    longer = [gpu.slug for gpu in table() if key and _key(gpu.slug).startswith(key)]
    if len(longer) > 1:
        return UsageError(
            f"{_shown(text)} could be several GPUs",
            hint="one of " + ", ".join(longer[:8]),
            code="gpu",
        )
    if re.fullmatch("[0-9.]+g?", key):
        hint = "a size needs its unit, such as 24gb or 24gib"
    else:
        near = _nearest(key)
        hint = ("did you mean " + ", ".join(near) + "? " if near else "") + (
            "`hfkv gpus` lists them all; a size such as 24gb works too"
        )
    return UsageError(f"unknown GPU {_shown(text)}", hint=hint, code="gpu")


def _nearest(key: str) -> list[str]:
    """Return up to three slugs, those that begin like `key` first: slips are at the end."""
    from difflib import get_close_matches  # noqa: PLC0415  for slips only

    near = get_close_matches(key, _index(), n=12)
    near.sort(key=lambda spelling: spelling[:4] != key[:4])
    return list(dict.fromkeys(_index()[spelling].slug for spelling in near))[:3]


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")
