"""The controls of the page: what may be asked, each with its label."""

from __future__ import annotations

from hfkv.render.html.elements import Html, el

__all__ = ["controls"]


def controls(*, several: bool) -> Html:
    """Return the form; it is hidden until the script has filled it in."""
    return el(
        "form",
        el("h2", "What if", id="what-if"),
        None if several else el("p", data_region="echo", aria_hidden="true"),
        _ranged("context", "Context", "tokens of each sequence", 10**12),
        _check("own-maximum", "each model's own maximum") if several else None,
        el("p", data_region="lengths", class_="quiet", hidden=True),
        _ranged("sequences", "Sequences", "resident at once", 10**9),
        _chosen("format", "KV cache format"),
        _chosen("gpu", "GPU"),
        _chosen("count", "Number of GPUs"),
        _utilization(),
        el("button", "Back to what was asked", type="button", id="reset"),
        el(
            "div",
            el("p", "The same answer on the command line", class_="quiet", id="command-name"),
            el("pre", tabindex=0, data_region="command", aria_labelledby="command-name"),
            class_="command",
        ),
        id="controls",
        class_="card",
        aria_labelledby="what-if",
        hidden=True,
    )


def _ranged(name: str, label: str, unit: str, most: int) -> Html:
    """Return a number that can be typed, up to what a command takes, and a slider of usual ones."""
    typed = el(
        "input", type="number", id=name, min=1, max=most, step=1, inputmode="numeric", required=True
    )
    return el(
        "div",
        el("label", label, " ", el("span", unit, class_="quiet"), for_=name),
        typed,
        el("input", type="range", id=f"{name}-slider", aria_label=f"{label}, slider"),
        class_="field",
    )


def _check(name: str, label: str) -> Html:
    return el(
        "div",
        el("input", type="checkbox", id=name),
        el("label", label, for_=name),
        class_="field check",
    )


def _chosen(name: str, label: str) -> Html:
    return el("div", el("label", label, for_=name), el("select", id=name), class_="field")


def _utilization() -> Html:
    return el(
        "div",
        el(
            "label", "Utilization ", el("span", "of the memory", class_="quiet"), for_="utilization"
        ),
        el("output", id="utilization-value", for_="utilization"),
        el("input", type="range", id="utilization", min=1, max=100, step=1),
        class_="field",
    )
