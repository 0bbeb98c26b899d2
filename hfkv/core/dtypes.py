"""Every spelling of a number format, and how many bytes it takes.

A format is a block: `elements` values in `bytes` bytes. Plain formats are blocks of the
smallest whole number of bytes (bf16 is 1 in 2, F4 is 2 in 1, F6 is 4 in 3); quantized cache
formats carry their scales (q8_0 is 32 in 34). Integers only: no bits-per-weight floats.
"""

from __future__ import annotations

from hfkv.core.record import dataclass
from hfkv.errors import MalformedError, UsageError

__all__ = [
    "ENGINE_FORMATS",
    "KV_DTYPES",
    "SAFETENSORS_BITS",
    "DType",
    "cache_dtype",
    "config_dtype",
]

# Bits per element by the name in a safetensors header.
# Source: safetensors 0.8.0, src/tensor.rs, Dtype::bitsize.
SAFETENSORS_BITS: dict[str, int] = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}


@dataclass(frozen=True, slots=True)
class DType:
    """A number format: `elements` values occupy `bytes` bytes."""

    name: str
    elements: int
    bytes: int

    def size(self, count: int) -> int:
        """Return the bytes of `count` values.

        Raises UsageError when they do not fill whole blocks (q8_0 rows come in 32s).
        """
        blocks, rest = divmod(count, self.elements)
        if rest:
            raise UsageError(
                f"{self.name} stores values in blocks of {self.elements}, "
                f"and a row of {count} does not fill them",
                hint="choose another --kv-dtype, for example bf16 or fp8",
                code="kv-dtype",
            )
        return blocks * self.bytes

    @property
    def bits(self) -> tuple[int, int]:
        """Return bits per element as a fraction (numerator, denominator)."""
        return 8 * self.bytes, self.elements


# Formats a cache can be kept in, by their canonical (torch-like) name.
# q8_0/q4_0/q4_1/q5_0/q5_1/iq4_nl blocks: llama.cpp ggml-common.h (fp16 scale, 32 values).
# nvfp4: 16 e2m1 values share one e4m3 scale (vLLM cache dtype docs; ModelOpt NVFP4).
KV_DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        DType("float64", 1, 8),
        DType("float32", 1, 4),
        DType("float16", 1, 2),
        DType("bfloat16", 1, 2),
        DType("fp8", 1, 1),
        DType("fp8_e4m3", 1, 1),
        DType("fp8_e5m2", 1, 1),
        DType("int8", 1, 1),
        DType("int4", 2, 1),
        DType("nvfp4", 16, 9),
        DType("fp8_ds_mla", 1, 1),
        DType("fp8_per_token_head", 1, 1),
        DType("int8_per_token_head", 1, 1),
        DType("int4_per_token_head", 2, 1),
        DType("q8_0", 32, 34),
        DType("q5_1", 32, 24),
        DType("q5_0", 32, 22),
        DType("q4_1", 32, 20),
        DType("q4_0", 32, 18),
        DType("iq4_nl", 32, 18),
    )
}

# Formats of vLLM; the scales behind their rows are laid out by engines/vllm_stores.py.
ENGINE_FORMATS = frozenset(
    {"fp8_ds_mla", "fp8_per_token_head", "int8_per_token_head", "int4_per_token_head"}
)

_SPELLINGS: dict[str, str] = {
    "f64": "float64",
    "fp64": "float64",
    "double": "float64",
    "f32": "float32",
    "fp32": "float32",
    "float": "float32",
    "f16": "float16",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "f8": "fp8",
    "float8": "fp8",
    "f8_e4m3": "fp8_e4m3",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e4m3": "fp8_e4m3",
    "f8_e5m2": "fp8_e5m2",
    "float8_e5m2": "fp8_e5m2",
    "i8": "int8",
    "i4": "int4",
    "q8": "q8_0",
    "q4": "q4_0",
    "fp4_e2m1": "nvfp4",  # SGLang
}

# Formats a model can compute in: the only ones a config's dtype key may name.
_COMPUTE = ("float32", "float16", "bfloat16", "float64")


def _canonical(name: str) -> str:
    short = name.strip().lower().removeprefix("torch.")
    return _SPELLINGS.get(short, short)


def cache_dtype(name: str) -> DType:
    """Return the cache format a user named (`bf16`, `fp8`, `q8_0` …).

    Raises UsageError for a name that is not a cache format.
    """
    found = KV_DTYPES.get(_canonical(name))
    if found is None:
        raise UsageError(
            f"unknown KV dtype '{name}'",
            hint="known: auto, bf16, fp16, fp32, " + ", ".join(list(KV_DTYPES)[4:]),
            code="kv-dtype",
        )
    return found


def config_dtype(value: object, *, where: str) -> DType | None:
    """Return the compute format named by a config's `dtype`/`torch_dtype`, or None for 'auto'.

    A header spelling (`BF16`) is understood too. Formats that nothing computes in (a
    quantized storage type left in the key) give None. Raises MalformedError for a value
    that is not a string.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise MalformedError(f"expected a dtype name, got {value!r:.60}", where=where)
    name = _canonical(value)
    return KV_DTYPES[name] if name in _COMPUTE else None
