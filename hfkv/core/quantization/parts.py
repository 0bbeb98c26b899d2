"""What a tensor-layout rule sees and answers: one quantized module, and what it unpacks to."""

from __future__ import annotations

from dataclasses import field
from math import prod

from hfkv.core.files import TensorGroup
from hfkv.core.record import dataclass

__all__ = ["Parts", "Scheme", "Stored", "Unpacked", "Width"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """A bit width that a block states; `pattern` is the module name or regex it is for."""

    bits: int
    group_size: int | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """How a checkpoint is quantized.

    `method` is what the tensors show where headers were read, else what a file declares;
    `declared` is the file's word, and `disagreements` are sentences about the difference.
    `bits` and `group_size` are None where they differ by module or are not stated.
    `ignored` are module names or patterns that stay unquantized. `kv_dtype` is the cache
    format the checkpoint declares (a name of `dtypes.KV_DTYPES`), with its source; scale
    tensors alone declare nothing. `widths` are per-module widths, `shapes` logical
    (out, in) shapes by module name, for layouts whose headers do not tell them.
    """

    method: str
    declared: str | None
    source: str
    format: str | None = None
    bits: int | None = None
    group_size: int | None = None
    ignored: tuple[str, ...] = ()
    kv_dtype: str | None = None
    kv_source: str | None = None
    disagreements: tuple[str, ...] = ()
    widths: tuple[Width, ...] = ()
    shapes: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """What a layout rule found: logical elements of one tensor, and its shape where known."""

    layout: str
    parameters: int | None
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One tensor group with its meaning.

    `layout` is a layout name, or plain, overhead (scales, zero points, codebooks: no
    parameters), buffer (masks, positions: no parameters) or unknown. `parameters` are the
    logical elements of one tensor, None for an unknown packing; `shape` is the logical
    shape (out, in) where it is known. The name of the group is `module`, then `key`, the
    suffix that says what it is to the module.
    """

    group: TensorGroup
    module: str
    key: str
    layout: str
    parameters: int | None
    shape: tuple[int, ...] | None = None

    @property
    def packed(self) -> bool:
        """Return whether the group holds quantized values."""
        return self.layout not in {"plain", "overhead", "buffer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """One quantized module: the tensor with its values, and what stands beside it by suffix."""

    module: str
    values: TensorGroup
    beside: dict[str, TensorGroup]
    scheme: Scheme | None

    def shape(self, *keys: str) -> tuple[int, ...]:
        """Return the shape of the first of these tensors that exists, else ()."""
        return next((self.beside[key].shape for key in keys if key in self.beside), ())

    def dtype(self, key: str) -> str:
        """Return the stored dtype of a tensor beside the values, or an empty string."""
        return self.beside[key].dtype if key in self.beside else ""

    @property
    def path(self) -> str:
        """Return the name of one of the modules, numbers filled in."""
        layers = self.values.layers
        return self.module.replace("{}", str(layers[0]) if layers else "0", 1).replace("{}", "0")

    def found(self, layout: str, *shape: int) -> Unpacked:
        """Return an answer with a known logical shape."""
        return Unpacked(layout=layout, parameters=prod(shape), shape=shape)

    def counted(self, layout: str, numerator: int, denominator: int = 1) -> Unpacked:
        """Return an answer whose logical size is a fraction of the stored elements."""
        total, rest = divmod(self.values.elements * numerator, denominator)
        return Unpacked(layout=layout, parameters=None if rest else total)

    def unknown(self, layout: str) -> Unpacked:
        """Return the answer that the header does not tell the logical size."""
        return Unpacked(layout=layout, parameters=None)
