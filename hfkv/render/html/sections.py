"""The parts of the page that no control changes, and the places of those that one does."""

from __future__ import annotations

from typing import Any

from hfkv.core.counts import counted
from hfkv.core.engines.titles import engine_title
from hfkv.render.fits import fit_heading
from hfkv.render.html.elements import Html, el, join, section, table
from hfkv.render.html.origins import sources_section, warnings_section, weights_section
from hfkv.render.html.pictures import layer_map, memory_bar
from hfkv.render.phrases import MARKS
from hfkv.render.units import dtype, integer, size, size_or_none

__all__ = ["article", "failure", "models_section"]

_MARKS = {feeling.name.lower(): mark for feeling, mark in MARKS.items()}


def models_section() -> Html:
    """Return the place where the models stand side by side."""
    return el(
        "section",
        el("h2", "Side by side", id="side-by-side"),
        el("div", data_region="models"),
        el("figure", el("div", data_region="curves"), class_="curve"),
        class_="card",
        aria_labelledby="side-by-side",
    )


def failure(index: int, document: dict[str, Any], *, several: bool) -> Html:
    """Return the card of a model that could not be read."""
    error = document["error"]
    mark = el("span", _MARKS["short"], class_="mark", aria_hidden="true")
    return el(
        "article",
        el("h2" if several else "h1", document["id"], class_="name"),
        el("p", mark, " ", error["message"], class_="verdict short"),
        el("p", error["hint"], class_="quiet") if error.get("hint") else None,
        id=f"model-{index}",
        class_="card",
    )


def article(index: int, document: dict[str, Any], *, form: Html | None, several: bool) -> Html:
    """Return one model: answer, how far, why, weights, warnings, sources; folded of several.

    `form` follows the answer, or why there is none.
    """
    level = 2 if several else 1
    rest = join(
        _far(document, level + 1),
        _why(document, level + 1),
        weights_section(document, level + 1),
        warnings_section(document, level + 1),
        sources_section(document, level + 1),
    )
    if several:
        title = f"How far, why, weights, warnings and sources of {document['target']['id']}"
        rest = el("details", el("summary", title), rest, class_="more")
    missing = document["page"]["no_controls"]
    if missing is not None:
        form = join(form, el("p", missing, class_="quiet card"))
    return el(
        "article", _answer(document, level), form, rest, id=f"model-{index}", data_model=index
    )


def _answer(document: dict[str, Any], level: int) -> Html:
    target, words = document["target"], document["page"]["words"]
    version = (target["kind"] if target["kind"] != "hub" else None, target["revision"])
    shown = " ".join(part for part in (*version, (target["sha"] or "")[:12]) if part)
    feeling = words["feeling"]
    return el(
        "section",
        el(f"h{level}", target["id"], class_="name"),
        el("p", shown, class_="quiet version") if shown else None,
        el("p", words["model"], class_="quiet"),
        el(
            "p",
            el("span", _MARKS[feeling], class_="mark", aria_hidden="true"),
            " ",
            el("span", words["verdict"], data_figure="verdict"),
            class_=f"verdict {feeling}",
            data_region="verdict",
            role="status",
        ),
        el("div", _sizes(document), data_region="memory"),
        _ways(document["fit"]),
        class_="card answer",
    )


def _sizes(document: dict[str, Any]) -> Html:
    """Return what was asked as tables; the script replaces them by what is asked now."""
    weights, kv = document["weights"], document["kv_cache"]
    rows = []
    if weights is not None:
        rows.append(("weights", size(weights["loaded_bytes"]), integer(weights["loaded_bytes"])))
        if (what_if := weights["what_if"]) is not None:
            counted = f"weights in {dtype(what_if['format'])}, an estimate"
            rows[-1] = (counted, size(what_if["bytes"]), integer(what_if["bytes"]))
    if kv is not None:
        load = document["page"]["words"]["load"]
        rows.append((f"KV cache, {load}", size(kv["bytes"]), integer(kv["bytes"])))
    tables = [table(("what", ">size", ">bytes"), rows, "What it takes")] if rows else []
    if document["fit"]:
        tables += [_bar(fit) for fit in document["fit"][:1] if len(document["fit"]) == 1]
        tables.append(_fits(document["fit"], document["page"]["words"]["most"]))
    notes = dict.fromkeys(note for fit in document["fit"] for note in fit["notes"])
    return join(*tables, *(el("p", note, class_="quiet") for note in notes))


def _name(fit: dict[str, Any]) -> str:
    name: str = fit["name"]
    return name if fit["count"] == 1 else f"{fit['count']} × {name}"


def _bar(fit: dict[str, Any]) -> Html:
    return memory_bar(fit, _name(fit))


def _fits(fits: list[dict[str, Any]], most: list[tuple[str, str]]) -> Html:
    rows = (
        (
            _name(fit),
            size(fit["memory_bytes"]),
            size_or_none(fit["weights_bytes_per_gpu"]),
            size(fit["kv_pool_bytes_per_gpu"]),
            "weights unknown" if fit["fits"] is None else fit["verdict"],
            *room,
        )
        for fit, room in zip(fits, most, strict=True)
    )
    return table(fit_heading("verdict"), rows, "On each GPU")


def _ways(fits: list[dict[str, Any]]) -> Html | None:
    """Return what would help, for what was asked; the script hides it for anything else."""
    rows = [
        (
            el("code", way["change"]),
            *((fit["name"],) if len(fits) > 1 else ()),
            size(way["frees_bytes"]),
            ("yes" if way["fits"] else "no") + (", estimated" if way["estimate"] else ""),
        )
        for fit in fits
        for way in fit["ways_to_fit"]
    ]
    if not rows:
        return None
    heading = ("change", *(("on",) if len(fits) > 1 else ()), ">frees per GPU", "enough")
    return el("div", table(heading, rows, "Ways to fit"), data_asked=True)


def _far(document: dict[str, Any], level: int) -> Html | None:
    """Return the card of what holds for what was asked, and a word for anything else."""
    asked = document["page"]["asked"]
    if asked is None:
        return None
    said = (
        "Lengths, plans, commands and the bound on speed are worked out for what was asked. "
        "For another setting, run its command line."
    )
    return section(
        "How far it goes",
        level,
        el("div", asked, data_asked=True),
        el("p", said, class_="quiet", data_region="otherwise", hidden=True),
    )


def _why(document: dict[str, Any], level: int) -> Html | None:
    words, kv = document["page"]["words"], document["kv_cache"]
    children: list[Html | None] = []
    if kv is not None and kv["components"]:
        children += [
            el("figure", el("div", data_region="curve"), class_="curve"),
            el("figure", el("div", _map(words["kept"]), data_region="layers"), class_="layers"),
            el("div", _components(kv), data_region="components"),
        ]
    if words["layers"]:
        children.append(_layers(words["layers"]))
    children += [el("p", doubt, class_="doubt") for doubt in document["architecture"]["doubts"]]
    if kv is not None:
        children.append(_on_a_gpu(kv))
        children.append(_simple(kv["simple_formula"]))
    return section("Why", level, *children) if children else None


def _map(layers: list[tuple[str, int]]) -> Html:
    title = f"What each of {counted(len(layers), 'layer')} keeps of one sequence"
    return join(el("figcaption", title), layer_map(layers))


def _components(kv: dict[str, Any]) -> Html:
    rows = (
        (
            part["name"],
            f"{integer(part['layers'])} ×",
            integer(part["slots"]),
            f"{size(part['bytes_per_slot'])} {dtype(part['dtype'])}",
            size(part["bytes"]),
        )
        for part in kv["components"]
    )
    heading = ("what", ">layers", ">entries", ">each", ">in all")
    return table(heading, rows, "What a sequence keeps")


def _layers(groups: list[list[str]]) -> Html:
    rows = (
        (
            number,
            join(el("i", class_=f"swatch kind-{kind}"), kind.replace("_", " ")),
            heads,
            dims,
            window,
            which,
        )
        for number, kind, heads, dims, window, which in groups
    )
    heading = (">layers", "kind", ">KV heads", ">head dim", ">window", "which")
    return table(heading, rows, "Layers")


def _on_a_gpu(kv: dict[str, Any]) -> Html | None:
    """Return what the engine makes of the need on one GPU, where that is something else."""
    need, start, steady = kv["per_gpu"].values()
    if len({need, start, steady}) == 1:
        return None
    return el(
        "p",
        f"As asked, on one GPU {engine_title(kv['engine'])} needs {size(need)} for a sequence, "
        f"reserves {size(start)} when it starts and holds {size(steady)} while decoding.",
    )


def _simple(simple: dict[str, Any]) -> Html:
    """Return whether the simple formula applies to what was asked, and why not."""
    if simple["applies"]:
        return el("p", "The simple formula, 2·L·Hkv·D·T·B·S, applies.")
    reasons = [el("li", reason) for reason in simple["why_not"]]
    return join(
        el(
            "p",
            "The simple formula, 2·L·Hkv·D·T·B·S, does not apply to what was asked",
            el("span", data_figure="simple"),
            ":",
        ),
        el("ul", *reasons),
    )
