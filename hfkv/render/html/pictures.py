"""The memory of a GPU as a bar and the layers as columns; the script draws them anew."""

from __future__ import annotations

from typing import Any

from hfkv.core.counts import counted
from hfkv.render.html.elements import Html, el
from hfkv.render.units import size

__all__ = ["layer_map", "memory_bar"]


def memory_bar(fit: dict[str, Any], name: str) -> Html:
    """Return what one GPU is to hold and what is left of it, or where it ends when it is short."""
    held = {
        "weights": fit["weights_bytes_per_gpu"] or 0,
        "overhead": fit["overhead_bytes_per_gpu"],
        "kv": fit["kv_bytes_per_gpu"],
    }
    needed, budget = sum(held.values()), fit["budget_bytes"]
    short = needed > budget
    left = {} if short else {"free": budget - needed, "left": fit["memory_bytes"] - budget}
    whole = max(needed, fit["memory_bytes"] if not short else needed, 1)
    parts = [
        el("div", class_=f"part {kind}", style=f"width:{100 * part / whole:.4f}%")
        for kind, part in {**held, **left}.items()
        if part > 0
    ]
    limit = el("div", class_="limit", style=f"left:{100 * budget / whole:.4f}%") if short else None
    said = ", ".join(f"{kind} {size(part)}" for kind, part in held.items())
    return el("div", *parts, limit, class_="bar", role="img", aria_label=f"{name}: {said}")


def layer_map(layers: list[tuple[str, int]]) -> Html:
    """Return one column a layer, as high as what it keeps of one sequence."""
    largest = max(1, *(kept for _, kept in layers))
    columns = [
        el(
            "div",
            el(
                "div",
                class_="kept" if kept else "nothing",
                style=f"height:{100 * kept / largest:.2f}%",
            ),
            class_=f"layer kind-{kind}",
            title=f"layer {i}: {kind.replace('_', ' ')}, {size(kept)}",
        )
        for i, (kind, kept) in enumerate(layers)
    ]
    said = f"{counted(len(layers), 'layer')}; the largest keeps {size(largest)}"
    return el("div", *columns, class_="map", role="img", aria_label=said)
