"""One self-contained file: sections that stand on their own, and a script that recalculates."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib import resources
from string import Template
from typing import Any

from hfkv.core.gpus import parse_gpu
from hfkv.core.report import Report
from hfkv.render.html.asked import asked_section
from hfkv.render.html.controls import controls
from hfkv.render.html.elements import Html, el, join
from hfkv.render.html.facts import choice, facts, no_controls
from hfkv.render.html.sections import article, failure, models_section
from hfkv.render.html.words import words
from hfkv.render.json import inspect_document
from hfkv.render.units import clean

__all__ = ["page_document", "render_html"]

_STYLES = ("uplot.css", "page.css")
# One function holds them all, so that nothing of it is global.
_SCRIPTS = (
    "units.js",
    "slots.js",
    "overhead.js",
    "vllm.js",
    "arithmetic.js",
    "words.js",
    "view.js",
    "chart.js",
    "page.js",
)

_SMALL_PRINT = (
    "This page is one file and asks no network. GiB are 2^30 bytes; point at a size for its bytes."
)


def page_document(report: Report) -> dict[str, Any]:
    """Return the `hfkv.inspect/1` document with what `render_html` needs besides, as `page`."""
    missing = no_controls(report) if report.kv is not None else None
    known = facts(report, report.kv) if report.kv is not None and missing is None else None
    page = {
        "words": words(report),
        "facts": known,
        "no_controls": missing,
        "asked": asked_section(report),
    }
    return {**inspect_document(report), "page": page}


def render_html(documents: list[dict[str, Any]], *, title: str) -> str:
    """Return the page of one `page_document`, or the comparison of several.

    A model that could not be read is `{"id": …, "error": {"code", "message", "hint"}}`.
    """
    version = next((d["hfkv_version"] for d in documents if "hfkv_version" in d), "")
    script = _script()
    return Template(_asset("page.html")).substitute(
        title=el("title", f"{title} · hfkv"),
        policy=_policy(_asset("uplot.js"), script),
        style="\n".join(_asset(name) for name in _STYLES),
        body=_body(documents, title),
        footer=el("p", f"hfkv {version}. {_SMALL_PRINT}"),
        facts=_embedded(documents),
        plot=_asset("uplot.js"),
        script=script,
    )


def _body(documents: list[dict[str, Any]], title: str) -> Html:
    several = len(documents) != 1
    form = controls(several=several) if any(_facts(one) for one in documents) else None
    told = [
        failure(i, document, several=several)
        if "error" in document
        else article(i, document, form=None if several else form, several=several)
        for i, document in enumerate(documents)
    ]
    return join(el("h1", title), models_section(), form, *told) if several else join(*told)


def _facts(document: dict[str, Any]) -> Any:
    return document.get("page", {}).get("facts")


@cache
def _asset(name: str) -> str:
    place = resources.files("hfkv.render.html").joinpath("assets", name)
    return place.read_text(encoding="utf-8")


@cache
def _script() -> str:
    parts = "\n".join(_asset(name) for name in _SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();'


def _policy(*scripts: str) -> str:
    """Return a content security policy: these scripts and no other, and no network at all."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'"
        for s in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )


def _embedded(documents: list[dict[str, Any]]) -> str:
    """Return the data of the script as JSON that no markup can end."""
    data = {
        "gpus": [choice(gpu) for gpu in parse_gpu("all")],
        "models": [_model(document) for document in documents],
    }
    text = json.dumps(_exact(data), separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _model(document: dict[str, Any]) -> dict[str, Any]:
    if "error" in document:
        return {"id": clean(document["id"]), "facts": None}
    weights = document["weights"]
    return {
        "id": clean(document["target"]["id"]),
        "weights": weights["loaded_bytes"] if weights else None,
        "facts": document["page"]["facts"],
    }


def _exact(value: Any) -> Any:
    """Return data in which integers that a JSON number would round are texts."""
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(item) for item in value]
    return {"big": str(value)} if type(value) is int and abs(value) >= 2**53 else value
