"""What a page says of a model in words, said once, where the whole report is at hand."""

from __future__ import annotations

import json
from typing import Any

from hfkv.core.counts import counted
from hfkv.core.engines.registry import engine_named
from hfkv.core.kv import layer_bytes
from hfkv.core.report import Report
from hfkv.render.html.holdings import precision_of
from hfkv.render.layers import dims, group_layers, heads, places
from hfkv.render.phrases import CONFIDENCE, load_phrase, model_phrase, most, verdict
from hfkv.render.units import clean, integer

__all__ = ["words"]

_LONG = 40  # characters of a value


def words(report: Report) -> dict[str, Any]:
    """Return the verdict, the model in a line, its layers, and the path of every figure."""
    feeling, sentence = verdict(report)
    grade = report.architecture.confidence.name.lower()
    groups = group_layers(report.architecture.layers)
    return {
        "feeling": feeling.name.lower(),
        "verdict": sentence,
        "model": model_phrase(report),
        "load": load_phrase(report, report.kv) if report.kv else None,
        "most": [most(report, fit) for fit in report.fit],
        "confidence": f"{grade}: {CONFIDENCE[grade]}",
        "layers": [
            [
                integer(len(group.indices)),
                group.kind,
                heads(group),
                dims(group),
                integer(group.window),
                which,
            ]
            for group, which in zip(groups, places(groups), strict=True)
        ],
        "kept": _kept(report),
        "readings": [
            [clean(reading.field, 60), _shown(reading.value), clean(reading.source)]
            for reading in report.architecture.readings
        ],
    }


def _kept(report: Report) -> list[tuple[str, int]]:
    """Return the kind of each layer, and its bytes of one sequence in the asked length."""
    if report.kv is None:
        return []
    arch, engine = report.architecture, engine_named(report.workload.engine)
    precision = precision_of(report, engine, report.workload.kv_dtype)
    kept = layer_bytes(arch, report.workload, engine, precision, tokens=report.kv.tokens)
    return [(str(layer.kind), held) for layer, held in zip(arch.layers, kept, strict=True)]


def _shown(value: object) -> str:
    if value is None or type(value) is int:
        return integer(value)
    if isinstance(value, dict | list) and len(value) > 4:
        return counted(len(value), "entry")
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return clean(text, _LONG)
