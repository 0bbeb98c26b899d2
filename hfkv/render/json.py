"""A report as a JSON document; the keys and their order are a contract."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from hfkv import __version__
from hfkv.core.architecture import Architecture
from hfkv.core.evidence import Evidence
from hfkv.core.files import ModelFiles
from hfkv.core.kv import KVReport, PerStage
from hfkv.core.readings import Reading
from hfkv.core.report import Report
from hfkv.core.snapshots import format_ranges
from hfkv.core.weights import WeightReport
from hfkv.render.evidence import confirming
from hfkv.render.layers import LayerGroup, group_layers

if TYPE_CHECKING:
    from hfkv.core.fit import FitReport
    from hfkv.core.what_if import WhatIf

__all__ = ["fit_document", "inspect_document", "kv_cache_document"]


# What stands after the keys of the contract although the dataclass has it before them.
_LATER = ("name", "memory_source", "overhead_parts", "notes", "kv_bytes_per_gpu")


def inspect_document(report: Report) -> dict[str, Any]:
    """Return the `hfkv.inspect/1` document of a report."""
    architecture = report.architecture
    return {
        "schema": "hfkv.inspect/1",
        "hfkv_version": __version__,
        "target": _target(report.files),
        "architecture": {
            **_architecture(architecture),
            "layers_source": "tensors" if architecture.from_tensors else "config",
            "evidence": _evidence(report.evidence),
        },
        "weights": _weights(report.weights, report.what_if) if report.weights else None,
        "kv_cache": kv_cache_document(report.kv) if report.kv else None,
        "fit": [fit_document(fit) for fit in report.fit],
        "warnings": _plain(report.findings),
        "sources": {reading.field: reading.source for reading in architecture.readings},
    }


def _target(files: ModelFiles) -> dict[str, Any]:
    target = files.target
    sizes = [file.size for file in files.files]
    known = [size for size in sizes if size is not None]
    return {
        "kind": target.kind,
        "id": target.id,
        "revision": target.revision,
        "sha": target.sha,
        "files": len(sizes),
        "download_bytes": sum(known) if len(known) == len(sizes) else None,
    }


def _architecture(a: Architecture) -> dict[str, Any]:
    return {
        "class_name": a.class_name,
        "model_type": a.model_type,
        "kind": a.kind,
        "num_hidden_layers": a.num_hidden_layers,
        "hidden_size": a.hidden_size,
        "vocab_size": a.vocab_size,
        "max_context": a.max_context,
        "num_attention_heads": a.num_attention_heads,
        "num_key_value_heads": a.num_key_value_heads,
        "head_dim": a.head_dim,
        "v_head_dim": a.v_head_dim,
        "sliding_window": a.sliding_window,
        "attention": a.attention,
        "confidence": a.confidence.name.lower(),
        "family": a.family,
        "experts": _plain(a.experts),
        "layers": [_layer_group(group) for group in group_layers(a.layers)],
        "mtp_layers": a.mtp_layers,
        "doubts": list(a.doubts),
        "unread_keys": list(a.unread),
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    """Return what the tensors said of the architecture; `tensor` is a template of names."""
    return {
        "agreements": [_agreement(reading) for reading in evidence.agreements],
        "disagreements": list(evidence.disagreements),
        "silent": list(evidence.silent),
        "complete": evidence.complete,
    }


def _agreement(reading: Reading) -> dict[str, Any]:
    tensor, layers = confirming(reading)
    return {"field": reading.field, "value": reading.value, "tensor": tensor, "layers": layers}


def _layer_group(group: LayerGroup) -> dict[str, Any]:
    return {
        "kind": group.kind,
        "count": len(group.indices),
        "indices": format_ranges(group.indices),
        "num_key_value_heads": group.num_key_value_heads,
        "head_dim": group.head_dim,
        "v_head_dim": group.v_head_dim,
        "window": group.window,
        "elements_per_token": group.elements_per_token,
        "fixed_elements": group.fixed_elements,
    }


def _weights(w: WeightReport, found: WhatIf | None) -> dict[str, Any]:
    return {
        "bytes": w.bytes,
        "parameters": w.parameters,
        "stored_elements": w.stored_elements,
        "tensors": w.tensors,
        "source": w.source,
        "by_dtype": _plain(w.by_dtype),
        "by_role": _plain(w.by_role),
        "quantization": _quantization(w),
        "loaded_bytes": w.loaded_bytes,
        "complete": w.complete,
        "half_precision_bytes": w.half_precision_bytes,
        "tied_embeddings": w.tied_embeddings,
        "notes": list(w.notes),
        "what_if": _what_if(found) if found else None,
    }


def _what_if(found: WhatIf) -> dict[str, Any]:
    return {
        "format": found.name,
        "estimate": True,
        "bytes": found.bytes,
        "unquantized_bytes": found.unquantized_bytes,
        "by_role": dict(found.by_role),
        "assumptions": list(found.assumptions),
    }


def _quantization(w: WeightReport) -> dict[str, Any] | None:
    if w.quantization is None:
        return None
    scheme: dict[str, Any] = _plain(w.quantization)
    effective = w.quantization.effective_bits
    bits = round(effective[0] / effective[1], 4) if effective and effective[1] else None
    return {**scheme, "effective_bits": bits}


def kv_cache_document(kv: KVReport) -> dict[str, Any]:
    """Return the cache as it stands in a document."""
    simple = kv.simple_formula
    return {
        "tokens": kv.tokens,
        "sequences": kv.sequences,
        "dtype": kv.dtype,
        "dtype_source": kv.dtype_source,
        "engine": kv.engine,
        "bytes": kv.bytes,
        "bytes_per_sequence": kv.bytes_per_sequence,
        "bytes_per_token": kv.bytes_per_token,
        "per_gpu": _plain(kv.per_gpu),
        "fixed_bytes_per_sequence": kv.fixed_bytes_per_sequence,
        "components": _plain(kv.components),
        "simple_formula": {
            "applies": simple.applies,
            "bytes": simple.bytes,
            # how many times the truth the simple formula says
            "ratio": round(simple.bytes / kv.bytes, 4) if simple.bytes and kv.bytes else None,
            "why_not": list(simple.why_not),
        },
        "shared_bytes": kv.shared_bytes,
        "beams": kv.beams,
        "per_stage": [_stage(stage) for stage in kv.per_stage],
    }


def _stage(stage: PerStage) -> dict[str, Any]:
    return {
        "layers": len(stage.layers),
        "indices": format_ranges(stage.layers),
        **_plain(stage.per_gpu),
    }


def fit_document(fit: FitReport) -> dict[str, Any]:
    """Return one fit: the contract's keys in its order, then those that explain them."""
    whole = _plain(fit)
    numerator, denominator = whole.pop("utilization")
    later = {key: whole.pop(key) for key in _LATER}
    start_up = (whole["answers"] or {}).get("start_up")
    if start_up is not None:
        blocks, each = start_up["max_concurrency"]
        start_up["max_concurrency"] = round(blocks / each, 4)
    return {**whole, **later, "utilization": numerator / denominator}


def _plain(value: Any) -> Any:
    """Return dataclasses and tuples as the dicts and lists that JSON knows."""
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
