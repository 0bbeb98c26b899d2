"""Quantization blocks and headers → Scheme."""

from __future__ import annotations

from dataclasses import replace

from hfkv.core.files import ModelFiles, TensorGroup
from hfkv.core.quantization.blocks import Block, find_blocks
from hfkv.core.quantization.details import read_details
from hfkv.core.quantization.kv_format import declared_kv
from hfkv.core.quantization.layouts import unpack
from hfkv.core.quantization.methods import METHODS, canonical_method, method_of_layout
from hfkv.core.quantization.parts import Scheme, Stored

__all__ = ["read_scheme"]

# Keys that name the method of a block without `quant_method`, most specific first.
_TELLTALE: tuple[tuple[str, str], ...] = (
    ("quant_algo", "modelopt"),
    ("producer", "modelopt"),
    ("load_in_4bit", "bitsandbytes"),
    ("load_in_8bit", "bitsandbytes"),
    ("config_groups", "compressed-tensors"),
    ("global_quant_config", "quark"),
    ("config_for_layers", "vptq"),
    ("w_bit", "awq"),
    ("damp_percent", "gptq"),
)

_IGNORED = (
    "modules_to_not_convert",
    "ignored_layers",
    "ignore",
    "exclude_modules",
    "exclude",
    "llm_int8_skip_modules",
    "skip_modules",
)


def read_scheme(files: ModelFiles) -> Scheme | None:
    """Return how a checkpoint is quantized, or None where neither file nor tensor says so.

    Raises MalformedError, with the dotted path, for a block of wrong JSON types.
    """
    blocks = find_blocks(files)
    declared = _declared(blocks) if blocks else None
    if not files.tensors:
        return declared
    return _seen(declared, unpack(files.tensors, declared))


def _declared(blocks: tuple[Block, ...]) -> Scheme:
    block = blocks[0]
    method = _method(block)
    details = read_details(method, block)
    kv_dtype, kv_source, doubts = declared_kv(blocks)
    return Scheme(
        method=method,
        declared=method,
        source=block.place(),
        format=details.format,
        bits=details.bits,
        group_size=details.group_size,
        ignored=block.names(*_IGNORED),
        kv_dtype=kv_dtype,
        kv_source=kv_source,
        disagreements=doubts,
        widths=details.widths,
        shapes=details.shapes,
    )


def _method(block: Block) -> str:
    name = block.text("quant_method")
    if name is not None:
        return canonical_method(name)
    for key, method in _TELLTALE:
        if key in block.values:
            return method
    return block.implied or "unknown"


def _seen(declared: Scheme | None, stored: tuple[Stored, ...]) -> Scheme | None:
    """Return the scheme that the tensors show, with what they say against the config."""
    packed = [s for s in stored if s.packed]
    layouts = sorted({s.layout for s in packed} - {"unknown"})
    strange = tuple(_strange(s.group) for s in packed if s.layout == "unknown")
    if declared is None:
        if not packed:
            return None
        method = _common_method(layouts)
        bits = _one_width(packed)
        return Scheme(
            method=method,
            declared=None,
            source="safetensors header",
            bits=bits,
            disagreements=strange,
        )
    doubts = (*declared.disagreements, *_doubts(declared, layouts, stored), *strange)
    method = declared.method
    if not packed:
        method = "none"
    elif layouts and not METHODS.get(method, METHODS["nvfp4"]).layouts & set(layouts):
        method = _common_method(layouts)
    return replace(declared, method=method, disagreements=doubts)


def _common_method(layouts: list[str]) -> str:
    methods = {method_of_layout(layout) for layout in layouts}
    if len(methods) > 1:
        # a mixture such as fp8 attention with nvfp4 experts: name what one method can hold
        for name, known in METHODS.items():
            if name in methods and set(layouts) <= known.layouts:
                return name
    return min(methods, default="unknown")


def _doubts(declared: Scheme, layouts: list[str], stored: tuple[Stored, ...]) -> tuple[str, ...]:
    says = f"{declared.source} declares {declared.declared}"
    if not any(s.packed for s in stored):
        return (f"{says}, but every weight is plain {_commonest(stored)}",)
    known = METHODS.get(declared.declared or "")
    if known is None:
        return (f"{says}, which hfkv does not know; the tensors are {' and '.join(layouts)}",)
    alien = sorted(set(layouts) - known.layouts)
    if alien:
        example = next(s.group.name for s in stored if s.layout == alien[0])
        return (f"{says}, but `{example}` is stored as {alien[0]}",)
    return _bit_doubts(declared, stored)


def _bit_doubts(declared: Scheme, stored: tuple[Stored, ...]) -> tuple[str, ...]:
    """Compare a declared width with whole tensors whose own width the header tells."""
    stated = {declared.bits, *(width.bits for width in declared.widths)}
    for s in stored:
        if s.layout not in {"gptq", "awq", "mlx"} or not s.parameters:
            continue
        bits, rest = divmod(8 * s.group.nbytes, s.parameters)
        if None not in stated and not rest and bits not in stated:
            says = f"{declared.source} declares {declared.bits} bits"
            return (f"{says}, but `{s.group.name}` holds {bits} bits a weight",)
    return ()


def _one_width(packed: list[Stored]) -> int | None:
    """Return the whole bits every packed tensor spends on a weight, or None if they differ."""
    found: set[int | None] = set()
    for s in packed:
        bits, rest = divmod(8 * s.group.nbytes, s.parameters) if s.parameters else (0, 1)
        found.add(None if rest else bits)
    return found.pop() if len(found) == 1 else None


def _strange(group: TensorGroup) -> str:
    shape = "x".join(map(str, group.shape))
    return f"`{group.name}` is {group.dtype} {shape} in a packing that hfkv does not know"


def _commonest(stored: tuple[Stored, ...]) -> str:
    sizes: dict[str, int] = {}
    for s in stored:
        sizes[s.group.dtype] = sizes.get(s.group.dtype, 0) + s.group.nbytes * s.group.count
    return max(sizes, key=sizes.__getitem__, default="data")
