"""What the weights would take in another format: an estimate from the logical shapes.

Each format brings its real overhead (scales, zero points), and what quantizers usually leave
alone stays as it is: embeddings, output head, norms, routers, convolutions, towers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import field, replace
from math import prod

from hfkv.core.files import ModelFiles
from hfkv.core.pieces import Piece, take_inventory
from hfkv.core.quantization import read_scheme
from hfkv.core.record import dataclass
from hfkv.core.weights import RoleTotal, WeightReport
from hfkv.errors import UsageError

__all__ = ["WEIGHT_FORMATS", "WhatIf", "weight_format", "what_if"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Estimated loaded bytes in a format, what they assume, and what would stay 16 bit.

    `by_role` has the same bytes by role, none where shapes are not known.
    """

    name: str
    bytes: int
    assumptions: tuple[str, ...]
    unquantized_bytes: int
    by_role: dict[str, int] = field(default_factory=dict)

    def instead_of(self, report: WeightReport) -> WeightReport:
        """Return what would be loaded if the weights were in this format."""
        roles = {role: RoleTotal(bytes=n, parameters=None) for role, n in self.by_role.items()}
        other = replace(report, loaded_bytes=self.bytes, by_role=roles)
        if not report.portions:
            return other
        from hfkv.core.portions import in_roles  # noqa: PLC0415  for a GPU only

        return replace(other, portions=in_roles(report.portions, self.by_role))


# Bits of a matrix [rows, columns] in a format, and where its overhead comes from.
Bits = Callable[[int, int], int]


def _grouped(bits: int, group: int, overhead: int, *, per_row: int = 0) -> Bits:
    """Return a format with `overhead` bits for every `group` values of a row."""
    return lambda rows, columns: rows * (columns * bits + -(-columns // group) * overhead + per_row)


def _blocked(rows: int, columns: int) -> int:
    return rows * columns * 8 + -(-rows // 128) * -(-columns // 128) * 32


def _nf4(rows: int, columns: int) -> int:
    values = rows * columns
    return values * 4 + -(-values // 64) * 8 + -(-values // (64 * 256)) * 32


_PLAIN = {"float32": 32, "bfloat16": 16, "float16": 16}
WEIGHT_FORMATS: dict[str, tuple[Bits, str]] = {
    "fp8": (_blocked, "a 32-bit scale for every 128 × 128 block"),
    "int8": (_grouped(8, 2**62, 0, per_row=16), "a 16-bit scale for every output row"),
    "int4": (_grouped(4, 128, 16 + 4), "a 16-bit scale and a zero point for every 128 values"),
    "int3": (_grouped(3, 128, 16 + 3), "a 16-bit scale and a zero point for every 128 values"),
    "nf4": (_nf4, "bitsandbytes with double quantization: an 8-bit scale for every 64 values"),
    "mxfp4": (_grouped(4, 32, 8), "an 8-bit exponent for every 32 values"),
    "mxfp8": (_grouped(8, 32, 8), "an 8-bit exponent for every 32 values"),
    "nvfp4": (_grouped(4, 16, 8), "an 8-bit scale for every 16 values"),
    "q8_0": (_grouped(8, 32, 16), "a 16-bit scale for every 32 values"),
    "q4_0": (_grouped(4, 32, 16), "a 16-bit scale for every 32 values"),
}
_SPELLINGS = {
    "awq": "int4",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "gptq": "int4",
    "half": "float16",
    "w4a16": "int4",
    "w8a8": "int8",
}
_KEPT = (
    "embeddings, output head, norms, routers, convolutions and towers stay as they are, "
    "in at most 16 bit"
)
_QUANTIZED_ROLES = frozenset({"attention", "mlp", "experts"})
# Matrices of those roles that quantizers leave alone.
_LEFT_ALONE = re.compile(
    r"(?:^|[._])(?:gate|router\w*|wg|\w*expert_gate|conv\w*|a_log|dt_bias|relative_attention_bias)"
    r"(?:\.proj|\.layer)?$"
)


def weight_format(name: str) -> str:
    """Return the format that a name means; raises UsageError for one that is not known."""
    wanted = name.strip().lower()
    wanted = _SPELLINGS.get(wanted, wanted)
    if wanted not in WEIGHT_FORMATS and wanted not in _PLAIN:
        raise UsageError(
            f"unknown weights dtype '{name}'",
            hint="known: bf16, fp16, fp32, " + ", ".join(WEIGHT_FORMATS),
            code="weights-dtype",
        )
    return wanted


def what_if(report: WeightReport, files: ModelFiles, name: str) -> WhatIf | None:
    """Return an estimate of the loaded weights in another format, or None without counts.

    Raises UsageError for a format that is not known.
    """
    wanted = weight_format(name)
    if report.parameters is None:
        return None
    if not files.tensors:
        return _by_count(report.parameters, wanted)
    if wanted in _PLAIN:
        return _plain(files, wanted)
    return _by_shape(files, wanted)


def _by_count(parameters: int, name: str) -> WhatIf:
    """Estimate without shapes: every parameter in the format, as one large matrix."""
    if name in _PLAIN:
        bits, note = parameters * _PLAIN[name], f"every parameter in {name}"
    else:
        rule, overhead = WEIGHT_FORMATS[name]
        bits, note = rule(1, parameters), f"every parameter in {name}, with {overhead}"
    assumptions = (note, "shapes are not known, so nothing is taken to stay unquantized")
    return WhatIf(name=name, bytes=bits // 8, assumptions=assumptions, unquantized_bytes=0)


def _plain(files: ModelFiles, name: str) -> WhatIf:
    by_role: Counter[str] = Counter()
    for piece in take_inventory(files, read_scheme(files)).loaded:
        by_role[piece.role] += (piece.parameters or 0) * _PLAIN[name] // 8
    return WhatIf(
        name=name,
        bytes=by_role.total(),
        assumptions=(f"every parameter in {name}",),
        unquantized_bytes=0,
        by_role=dict(by_role),
    )


def _by_shape(files: ModelFiles, name: str) -> WhatIf:
    rule, overhead = WEIGHT_FORMATS[name]
    bits: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for piece in take_inventory(files, read_scheme(files)).loaded:
        size = _matrix_bits(piece, rule)
        if size is None:
            kept[piece.role] += _kept_bytes(piece)
        else:
            bits[piece.role] += size
    by_role = {role: -(-bits[role] // 8) + kept[role] for role in kept | bits}
    return WhatIf(
        name=name,
        bytes=sum(by_role.values()),
        assumptions=(
            f"matrices of attention, MLP and experts in {name}, with {overhead}",
            _KEPT,
        ),
        unquantized_bytes=kept.total(),
        by_role=by_role,
    )


def _matrix_bits(piece: Piece, rule: Bits) -> int | None:
    """Return the bits of a piece in the format, None where it would stay as it is."""
    module, key = piece.stored.module, piece.stored.key
    if piece.role not in _QUANTIZED_ROLES or key == "bias" or _LEFT_ALONE.search(module.lower()):
        return None
    shape = piece.stored.shape
    if shape is None:
        # a packing that keeps no shape: one long row has the same values
        return rule(1, piece.parameters or 0)
    if len(shape) < 2:
        return None
    return rule(prod(shape[:-1]), shape[-1]) * piece.count


def _kept_bytes(piece: Piece) -> int:
    """Return the bytes of a piece that stays, wide floats cast to 16 bit."""
    if piece.stored.layout == "overhead":
        return 0
    parameters = piece.parameters or 0
    return 2 * parameters if piece.stored.packed else min(piece.bytes, 2 * parameters)
