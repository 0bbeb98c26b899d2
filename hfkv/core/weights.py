"""Tensors → WeightReport: exact bytes, by dtype and by role, and logical parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["DtypeTotal", "QuantizationReport", "RoleTotal", "WeightReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DtypeTotal:
    """Totals of one stored dtype."""

    bytes: int
    elements: int
    tensors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleTotal:
    """Totals of one role (embedding, attention, mlp …)."""

    bytes: int
    parameters: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationReport:
    """How the weights are quantized. `bits` is None when it differs by module or is unknown.

    `source` is the file or `safetensors header` the format was read from.
    """

    format: str
    bits: int | None
    group_size: int | None
    source: str
    unquantized_modules: tuple[str, ...] = ()
    effective_bits: tuple[int, int] | None = None  # stored bits, logical parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightReport:
    """Exact sizes of the stored weights, in bytes.

    `parameters` are logical (a packed int4 byte counts two; scales count none), None when a
    packing is unknown. `loaded_bytes` is what an engine keeps on the GPU: without MTP
    layers and redundant tied copies. `source` is safetensors-headers, gguf-headers,
    hub-api, file-sizes or config. `notes` are sentences about what was left out and why.
    """

    bytes: int
    parameters: int | None
    stored_elements: int
    tensors: int
    source: str
    loaded_bytes: int
    by_dtype: dict[str, DtypeTotal] = field(default_factory=dict)
    by_role: dict[str, RoleTotal] = field(default_factory=dict)
    quantization: QuantizationReport | None = None
    tied_embeddings: bool = False
    notes: tuple[str, ...] = ()
