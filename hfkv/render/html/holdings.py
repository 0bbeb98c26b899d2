"""What the layers of one model hold, in the numbers that the page's script multiplies.

A *row* is one store of one kind of layer. How it grows does not depend on the cache format;
how wide it is does where an engine packs a format its own way: each such packing is a
*layout*, one width a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hfkv.core.architecture import Architecture
from hfkv.core.dtypes import KV_DTYPES, DType
from hfkv.core.engines.engine import Engine
from hfkv.core.engines.registry import engine_named
from hfkv.core.kv import KVReport
from hfkv.core.precision import Precision, choose_precision
from hfkv.core.quantization import read_scheme
from hfkv.core.record import dataclass
from hfkv.core.report import Report
from hfkv.core.stores import Fixed, Role, Store
from hfkv.errors import UsageError
from hfkv.render.units import dtype

__all__ = ["holdings", "precision_of"]

# Nobody keeps a cache so, or it is as large as fp8.
_NOT_OFFERED = frozenset({"float64", "fp8_e4m3", "fp8_e5m2"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layers:
    """The stores of every layer under one engine, and where each row is first met."""

    arch: Architecture
    engine: Engine
    stores: list[tuple[Store, ...]]
    rows: list[tuple[int, int]]  # a layer, and which of its stores
    groups: list[dict[str, Any]]
    asked: str

    def packed(self, cache: DType) -> list[Store]:
        """Return each row as the engine lays it out in a cache format; may raise UsageError."""
        layers = self.arch.layers
        whole = {i: self.engine.pack(layers[i], self.stores[i], cache) for i, _ in self.rows}
        return [whole[i][place] for i, place in self.rows]


def holdings(report: Report, kv: KVReport) -> dict[str, Any]:
    """Return the components of the cache, rows, groups of layers, formats and layouts."""
    layers = _layers(report)
    precisions = _precisions(report, layers.engine)
    base = layers.packed(precisions[report.workload.kv_dtype].cache)
    distinct = list(dict.fromkeys(base))  # in the order of the report's components
    layouts: list[list[Any]] = []
    return {
        "components": [
            {"name": part.name, "growth": part.growth, "limit": part.limit}
            for part in kv.components
        ],
        "rows": [{"component": distinct.index(store), **_growth(store)} for store in base],
        "groups": layers.groups,
        "formats": list(_formats(layers, precisions, layouts)),
        "layouts": layouts,
    }


def _layers(report: Report) -> _Layers:
    arch, engine = report.architecture, engine_named(report.workload.engine)
    stores = [engine.kept(arch, i, layer) for i, layer in enumerate(arch.layers)]
    known: dict[tuple[object, ...], int] = {}
    rows: list[tuple[int, int]] = []
    groups: dict[tuple[object, ...], dict[str, Any]] = {}
    for i, (layer, held) in enumerate(zip(arch.layers, stores, strict=True)):
        mine = []
        for place, store in enumerate(held):
            mine.append(known.setdefault((layer.kind, store), len(known)))
            if mine[-1] == len(rows):
                rows.append((i, place))
        group = {"kind": str(layer.kind), "layers": [], "rows": mine}
        groups.setdefault((layer.kind, *mine), group)["layers"].append(i)
    return _Layers(
        arch=arch,
        engine=engine,
        stores=stores,
        rows=rows,
        groups=[*groups.values()],
        asked=report.workload.kv_dtype,
    )


def precision_of(report: Report, engine: Engine, wanted: str) -> Precision:
    """Return the number formats under another `--kv-dtype`; may raise UsageError."""
    scheme = read_scheme(report.files)
    return choose_precision(
        report.architecture,
        report.files,
        engine,
        wanted=wanted,
        declared=scheme.kv_dtype if scheme else None,
        declared_source=(scheme.kv_source or "") if scheme else "",
        deployment=report.workload.deployment,
    )


def _precisions(report: Report, engine: Engine) -> dict[str, Precision]:
    """Return the cache formats that can be asked of the engine, by what is written for them."""
    found = {}
    for name in dict.fromkeys((report.workload.kv_dtype, "auto", *KV_DTYPES)):
        try:
            found[name] = precision_of(report, engine, name)
        except UsageError:
            continue  # the engine has no such format
    return found


def _formats(
    layers: _Layers, precisions: dict[str, Precision], layouts: list[list[Any]]
) -> Iterator[dict[str, Any]]:
    """Yield each format that this model can be kept in; adds the layouts that they use."""
    asked = precisions[layers.asked].cache
    for name in dict.fromkeys(("auto", *KV_DTYPES)):
        precision = precisions.get(name)
        if precision is None or (name in _NOT_OFFERED and precision.cache != asked):
            continue
        try:
            layout = [_width(store, precision) for store in layers.packed(precision.cache)]
        except UsageError:
            continue  # the engine does not keep this model so
        if layout not in layouts:
            layouts.append(layout)
        yield {
            "name": "auto" if name == "auto" else dtype(name),
            "block": _block(precision.cache),
            "layout": layouts.index(layout),
        }


def _block(kept: DType) -> list[Any]:
    return [kept.name, kept.elements, kept.bytes]


def _growth(store: Store) -> dict[str, Any]:
    """Return what decides how many entries a store has."""
    if isinstance(store, Fixed):
        return {"fixed": True, "heads": store.heads}
    return {
        "fixed": False,
        "heads": store.heads,
        "cross": store.role is Role.CROSS,
        "window": store.window,
        "stride": store.stride,
        "modulo": store.modulo,
    }


def _width(store: Store, precision: Precision) -> list[Any]:
    """Return values an entry, those of them no rank can leave out, and a format of its own."""
    own = store.dtype is not None or store.role in (Role.STATE, Role.CONV)
    whole = store.whole if isinstance(store, Fixed) else 0
    return [store.elements, whole, _block(precision.of(store)) if own else None]
