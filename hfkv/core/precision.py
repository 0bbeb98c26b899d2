"""Which number formats a run keeps its cache and its states in, and who said so."""

from __future__ import annotations

from hfkv.core.architecture import Architecture
from hfkv.core.dtypes import ENGINE_FORMATS, KV_DTYPES, SAFETENSORS_BITS, DType, cache_dtype
from hfkv.core.engines.engine import Engine
from hfkv.core.engines.titles import engine_title
from hfkv.core.files import ModelFiles
from hfkv.core.record import dataclass
from hfkv.core.stores import Role, Store
from hfkv.core.workload import Deployment
from hfkv.errors import UsageError

__all__ = ["Precision", "choose_precision"]

_FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
ASSUMED = "assumed: neither config nor tensors name a dtype, and engines serve 16 bit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """The cache's format, the model's compute format, and where each came from.

    `stored_float32` says that the checkpoint is float32 while the engine computes in 16 bit.
    """

    cache: DType
    cache_source: str
    compute: DType
    compute_source: str
    stored_float32: bool = False

    def of(self, store: Store) -> DType:
        """Return the format of one store: its own, the model's for states, else the cache's."""
        if store.dtype is not None:
            return _OWN.get(store.dtype) or KV_DTYPES[store.dtype]
        if store.role in (Role.STATE, Role.CONV):
            return self.compute
        return self.cache


# Formats that only bookkeeping tensors use.
_OWN = {"int64": DType("int64", 1, 8)}


def _commonest_float(files: ModelFiles) -> str | None:
    """Return the float dtype most bytes are stored in, by its torch name.

    The Hub counts elements by dtype, for gated repositories too.
    """
    totals: dict[str, int] = {}
    shown = files.hub.get("safetensors") if not files.tensors else None
    counts = shown.get("parameters") if isinstance(shown, dict) else None
    for name, count in counts.items() if isinstance(counts, dict) else ():
        if name in _FLOATS and type(count) is int:
            totals[name] = count * SAFETENSORS_BITS[name]
    for group in files.tensors:
        if group.dtype in _FLOATS:
            totals[group.dtype] = totals.get(group.dtype, 0) + group.nbytes * group.count
    return _FLOATS[max(totals, key=lambda name: totals[name])] if totals else None


def _wanted(name: str, engine: Engine) -> DType:
    found = cache_dtype(name)
    if found.name in ENGINE_FORMATS and found.name not in engine.cache_dtypes:
        raise UsageError(
            f"{found.name} is a cache format of vLLM",
            hint="add --engine vllm, or choose another --kv-dtype, for example fp8",
            code="kv-dtype",
        )
    if engine.cache_dtypes and found.name not in engine.cache_dtypes:
        raise UsageError(
            f"{engine_title(engine.name)} keeps no cache in {found.name}",
            hint="it has " + ", ".join(engine.cache_dtypes),
            code="kv-dtype",
        )
    return found


def choose_precision(
    arch: Architecture,
    files: ModelFiles,
    engine: Engine,
    *,
    wanted: str = "auto",
    declared: str | None = None,
    declared_source: str = "",
    deployment: Deployment | None = None,
) -> Precision:
    """Choose formats: the user's, the engine's, the checkpoint's, else the compute dtype.

    An engine may have another one for this model on the first GPU of the `deployment`.
    A float32 checkpoint counts as 16 bit under engines that serve it so. Raises UsageError
    for a `wanted` that is no cache format, or none of this engine's.
    """
    name, source = arch.compute_dtype, arch.compute_dtype_source
    if name is None:
        name, source = _commonest_float(files), "commonest float dtype of the tensors"
    if name is None:
        name, source = "bfloat16", ASSUMED
    narrowed = name in ("float32", "float64") and not engine.serves_float32
    if narrowed:
        source = f"16 bit, as engines do not serve the {name} of {source}"
        name = "bfloat16"
    compute = KV_DTYPES[name]
    if wanted != "auto":
        cache, cache_source = _wanted(wanted, engine), "--kv-dtype"
    elif engine.cache_dtype is not None:
        cache, cache_source = (
            KV_DTYPES[engine.cache_dtype],
            f"default of {engine_title(engine.name)}",
        )
    elif declared is not None:
        cache, cache_source = cache_dtype(declared), declared_source
    elif own := engine.default_cache and engine.default_cache(arch, deployment or Deployment()):
        cache = cache_dtype(own)
        cache_source = f"default of {engine_title(engine.name)} for this model on this GPU"
    else:
        cache, cache_source = compute, source
    return Precision(
        cache=cache,
        cache_source=cache_source,
        compute=compute,
        compute_source=source,
        stored_float32=narrowed,
    )
