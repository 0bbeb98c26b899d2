"""The parts of the page that say where it comes from: weights, warnings, sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hfkv.render.html.elements import Html, el, section, table
from hfkv.render.phrases import overhead_origin, weights_origin
from hfkv.render.units import NOTHING, clean, count, dtype, integer, percent, size, things

__all__ = ["sources_section", "warnings_section", "weights_section"]


def weights_section(document: dict[str, Any], level: int) -> Html | None:
    """Return what the weights take: by role, by dtype, and how they are quantized."""
    weights = document["weights"]
    if weights is None:
        return None
    loaded = weights["loaded_bytes"]
    note = f", of which {size(loaded)} are loaded" if loaded != weights["bytes"] else ""
    source = weights_origin(weights["source"], whole=weights["complete"])
    parameters = weights["parameters"]
    counted = f"{things(parameters, 'parameter')}, " if parameters is not None else ""
    return section(
        "Weights",
        level,
        el("p", f"{counted}{size(weights['bytes'])} in the files{note} ({source})."),
        _by_role(weights) if weights["by_role"] else None,
        _by_dtype(weights) if weights["by_dtype"] else None,
        _quantization(weights["quantization"]) if weights["quantization"] else None,
        *(el("p", note, class_="quiet") for note in weights["notes"]),
    )


def _by_role(weights: dict[str, Any]) -> Html:
    whole = weights["bytes"]
    ranked = sorted(weights["by_role"].items(), key=lambda item: -item[1]["bytes"])
    largest = max(1, ranked[0][1]["bytes"])
    rows = [
        (
            name.replace("_", " "),
            count(total["parameters"]) if total["parameters"] is not None else NOTHING,
            size(total["bytes"]),
            percent(total["bytes"], whole),
            _meter(100 * total["bytes"] / largest),
        )
        for name, total in ranked
    ]
    return table(
        ("used for", ">parameters", ">bytes", ">share", "beside the largest"),
        rows,
        "Weights by role",
    )


def _meter(part: float) -> Html:
    return el("div", el("div", style=f"width:{part:.2f}%"), class_="meter", aria_hidden="true")


def _by_dtype(weights: dict[str, Any]) -> Html:
    rows = (
        (
            name,
            integer(total["tensors"]),
            integer(total["elements"]),
            size(total["bytes"]),
            percent(total["bytes"], weights["bytes"]),
        )
        for name, total in weights["by_dtype"].items()
    )
    heading = ("stored as", ">tensors", ">elements", ">bytes", ">share")
    return table(heading, rows, "Weights by dtype")


def _quantization(scheme: dict[str, Any]) -> Html:
    kept = scheme["unquantized_modules"]
    figures = {
        "format": scheme["format"],
        "bits": scheme["bits"],
        "group size": scheme["group_size"],
        "bits a parameter, with its scales": scheme["effective_bits"],
        "left as they were": clean(", ".join(kept), 200) if kept else None,
        "read from": scheme["source"],
    }
    return el("dl", *_pairs(figures))


def _pairs(figures: dict[str, Any]) -> Iterator[Html]:
    for name, value in figures.items():
        if value is not None:
            yield el("dt", name)
            yield el("dd", str(value))


def warnings_section(document: dict[str, Any], level: int) -> Html | None:
    """Return every warning: its code, what is true, and what to do."""
    if not document["warnings"]:
        return None
    items = (
        el(
            "li",
            el("code", warning["code"]),
            " ",
            warning["message"],
            el("span", warning["hint"], class_="hint") if warning["hint"] else None,
        )
        for warning in document["warnings"]
    )
    return section("Watch out for", level, el("ul", *items, class_="warnings"))


def sources_section(document: dict[str, Any], level: int) -> Html:
    """Return how sure the figures are, and the path that each of them took."""
    words, kv, fits = document["page"]["words"], document["kv_cache"], document["fit"]
    origins: dict[str, Any] = {"architecture": words["confidence"]}
    if document["weights"] is not None:
        weights = document["weights"]
        origins["weights"] = weights_origin(weights["source"], whole=weights["complete"])
    if kv is not None:
        origins["cache dtype"] = f"{dtype(kv['dtype'])} ({clean(kv['dtype_source'])})"
    if fits:
        origins["GPU memory"] = fits[0]["memory_source"]
        origins["overhead"] = overhead_origin(
            fits[0]["overhead_parts"], fits[0]["overhead_bytes_per_gpu"]
        )
    readings = words["readings"]
    return section(
        "Where the figures come from",
        level,
        el("dl", *_pairs(origins)),
        el(
            "details",
            el("summary", f"The path of each of {len(readings)} figures"),
            table(("figure", ">value", "path it took"), readings, "Figures and their paths"),
        )
        if readings
        else None,
    )
