"""Tensors → WeightReport: exact bytes, by dtype and by role, and logical parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any

from hfkv.core.config import as_count
from hfkv.core.dtypes import SAFETENSORS_BITS
from hfkv.core.files import ModelFiles
from hfkv.core.pieces import Piece, sum_known, take_inventory
from hfkv.core.quantization import Scheme, read_scheme
from hfkv.core.record import dataclass
from hfkv.core.roles import ROLES
from hfkv.errors import MalformedError

if TYPE_CHECKING:
    from hfkv.core.portions import Portion

__all__ = ["DtypeTotal", "QuantizationReport", "RoleTotal", "WeightReport", "weigh"]

_FLOATS = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True, slots=True, kw_only=True)
class DtypeTotal:
    """Totals of one stored dtype; `tensors` is None where only the Hub's sums are known."""

    bytes: int
    elements: int
    tensors: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleTotal:
    """Totals of one role (embedding, attention, mlp …)."""

    bytes: int
    parameters: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationReport:
    """How the weights are quantized. `bits` is None when it differs by module or is unknown.

    `format` is the method the tensors show (none: plain tensors under a block that claims
    otherwise), `declared` what a file says. `source` is the file or `safetensors header`
    the format was read from; `disagreements` are sentences about the two. The effective
    bits are a fraction: stored bits with scales, and the logical parameters they hold.
    """

    format: str
    bits: int | None
    group_size: int | None
    source: str
    unquantized_modules: tuple[str, ...] = ()
    effective_bits: tuple[int, int] | None = None  # stored bits, logical parameters
    declared: str | None = None
    layouts: tuple[str, ...] = ()
    disagreements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightReport:
    """Exact sizes of the stored weights, in bytes.

    `parameters` are logical (a packed int4 byte counts two; scales count none), None when a
    packing is unknown. `loaded_bytes` is what an engine keeps on the GPU: without MTP
    layers, redundant tied copies and buffers that are rebuilt; `half_precision_bytes` is
    the same after the cast to 16 bit that vLLM and SGLang make of float32 checkpoints (None
    where there is nothing to cast). `source` is safetensors-headers, gguf-headers, hub-api,
    file-sizes or config. `notes` are sentences about what was left out and why.
    `stored_elements` and `tensors` are None where no header was read. `portions` (of
    `loaded_bytes`, and of tables that an engine builds beside them) are for GPUs only, and
    there are none without headers. Where files are missing it is not `complete`: every figure
    is of those that are there.
    """

    bytes: int
    parameters: int | None
    stored_elements: int | None
    tensors: int | None
    source: str
    loaded_bytes: int
    by_dtype: dict[str, DtypeTotal] = field(default_factory=dict)
    by_role: dict[str, RoleTotal] = field(default_factory=dict)
    quantization: QuantizationReport | None = None
    tied_embeddings: bool | None = None
    notes: tuple[str, ...] = ()
    half_precision_bytes: int | None = None
    portions: tuple[Portion, ...] = ()
    complete: bool = True


def weigh(files: ModelFiles) -> WeightReport | None:
    """Return the sizes of the weights, or None where neither headers nor sizes are known.

    Headers give exact figures; without them the Hub's per-dtype counts do, and without
    those the sizes of the weight files, which include their headers.
    """
    if files.tensors:
        return _from_headers(files)
    return _from_hub(files) or _from_sizes(files)


def _from_headers(files: ModelFiles) -> WeightReport:
    scheme = read_scheme(files)
    inventory = take_inventory(files, scheme)
    gaps = any(problem.code == "missing-shard" for problem in files.problems)
    pieces, unloaded = inventory.pieces, inventory.unloaded
    total = sum(p.bytes for p in pieces)
    loaded = total - sum(p.bytes for p in unloaded)
    return WeightReport(
        bytes=total,
        parameters=sum_known(p.parameters for p in pieces),
        stored_elements=sum(g.elements * g.count for g in files.tensors),
        tensors=sum(g.count for g in files.tensors),
        source="safetensors-headers",
        loaded_bytes=loaded,
        by_dtype=_by_dtype(files),
        by_role=_by_role(pieces),
        quantization=_quantization(scheme, pieces),
        tied_embeddings=inventory.tied,
        notes=tuple(_notes(unloaded, inventory.spare)),
        half_precision_bytes=_half(loaded, inventory.loaded),
        complete=not gaps,
    )


def _half(loaded: int, kept: tuple[Piece, ...]) -> int | None:
    """Return the loaded bytes after casting wide floats to 16 bit, for float32 checkpoints."""
    sizes = dict.fromkeys(_FLOATS, 0)
    for p in kept:
        if p.stored.group.dtype in sizes:
            sizes[p.stored.group.dtype] += p.bytes
    if 2 * (sizes["F32"] + sizes["F64"]) <= loaded:
        return None
    return loaded - sizes["F32"] // 2 - sizes["F64"] * 3 // 4


def _notes(unloaded: tuple[Piece, ...], spare: tuple[Piece, ...]) -> Iterator[str]:
    mtp = sum(p.bytes for p in unloaded if p.role == "mtp")
    if mtp:
        yield (
            f"{mtp:,} bytes of next-token (MTP) layers are stored; "
            "engines load them only for speculative decoding"
        )
    if spare:
        yield (
            f"`{spare[0].stored.group.name}` repeats the tied embedding "
            f"({sum(p.bytes for p in spare):,} bytes) and is not loaded"
        )
    buffers = sum(p.bytes for p in unloaded if p.stored.layout == "buffer")
    if buffers:
        yield f"{buffers:,} bytes of masks and position tables are rebuilt and hold no parameters"


def _by_dtype(files: ModelFiles) -> dict[str, DtypeTotal]:
    totals: dict[str, list[int]] = {}
    for group in files.tensors:
        sums = totals.setdefault(group.dtype, [0, 0, 0])
        sums[0] += group.nbytes * group.count
        sums[1] += group.elements * group.count
        sums[2] += group.count
    return {
        name: DtypeTotal(bytes=size, elements=elements, tensors=tensors)
        for name, (size, elements, tensors) in totals.items()
    }


def _by_role(pieces: tuple[Piece, ...]) -> dict[str, RoleTotal]:
    found = {p.role for p in pieces}
    return {
        role: RoleTotal(
            bytes=sum(p.bytes for p in pieces if p.role == role),
            parameters=sum_known(p.parameters for p in pieces if p.role == role),
        )
        for role in ROLES
        if role in found
    }


def _quantization(scheme: Scheme | None, pieces: tuple[Piece, ...]) -> QuantizationReport | None:
    if scheme is None:
        return None
    packed = [p for p in pieces if p.stored.packed]
    bits = sum(8 * p.bytes for p in pieces if p.stored.packed or p.stored.layout == "overhead")
    logical = sum_known(p.parameters for p in packed)
    return QuantizationReport(
        format=scheme.method,
        bits=scheme.bits if packed else None,
        group_size=scheme.group_size if packed else None,
        source=scheme.source,
        unquantized_modules=_unquantized(pieces) if packed else (),
        effective_bits=(bits, logical) if logical else None,
        declared=scheme.declared,
        layouts=tuple(sorted({p.stored.layout for p in packed})),
        disagreements=scheme.disagreements,
    )


def _unquantized(pieces: tuple[Piece, ...]) -> tuple[str, ...]:
    """Return the modules whose matrices stayed plain, as templates."""
    return tuple(
        sorted(
            {
                p.stored.module
                for p in pieces
                if p.stored.layout == "plain" and len(p.stored.group.shape) > 1
            }
        )
    )


def _from_hub(files: ModelFiles) -> WeightReport | None:
    """Read the per-dtype counts that the Hub publishes even for gated repositories."""
    counts = _hub_counts(files.hub)
    if not counts or any(name not in SAFETENSORS_BITS for name in counts):
        return None
    by_dtype = {
        name: DtypeTotal(bytes=n * SAFETENSORS_BITS[name] // 8, elements=n, tensors=None)
        for name, n in counts.items()
    }
    total = sum(part.bytes for part in by_dtype.values())
    plain = all(name in _FLOATS for name in counts)
    wide = sum(by_dtype[name].bytes for name in ("F32", "F64") if name in by_dtype)
    narrow = sum(n * 2 for name, n in counts.items() if name in {"F32", "F64"})
    return WeightReport(
        bytes=total,
        parameters=sum(counts.values()) if plain else None,
        stored_elements=sum(counts.values()),
        tensors=None,
        source="hub-api",
        loaded_bytes=total,
        by_dtype=by_dtype,
        notes=("summed from the Hub's metadata; headers were not read",),
        half_precision_bytes=total - wide + narrow if plain and 2 * wide > total else None,
    )


def _hub_counts(hub: dict[str, Any]) -> dict[str, int]:
    value: object = hub
    path = "hub metadata: safetensors.parameters"
    for key in ("safetensors", "parameters"):
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise MalformedError("expected an object", where=path)
        value = value.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedError("expected an object", where=path)
    return {str(name): as_count(n, where=f"{path}.{name}") for name, n in value.items()}


def _from_sizes(files: ModelFiles) -> WeightReport | None:
    wanted = set(files.weight_files)
    sizes = [file.size for file in files.files if file.path in wanted]
    total = sum_known(sizes)
    if not sizes or len(sizes) < len(wanted) or total is None:
        return None
    return WeightReport(
        bytes=total,
        parameters=None,
        stored_elements=None,
        tensors=None,
        source="file-sizes",
        loaded_bytes=total,
        notes=("summed from file sizes, which include the files' headers",),
    )
