"""A report as Markdown that can be pasted into an issue."""

from __future__ import annotations

from collections.abc import Iterator

from hfkv.core.counts import counted
from hfkv.core.kv import Component, KVReport
from hfkv.core.readings import Finding
from hfkv.core.report import Report
from hfkv.core.snapshots import format_ranges
from hfkv.render.evidence import confidence_phrase
from hfkv.render.fits import fit_cells, fit_heading
from hfkv.render.layers import dims, group_layers, heads
from hfkv.render.markdown_parts import explained, fit_blocks, speed_block
from hfkv.render.phrases import (
    load_phrase,
    model_phrase,
    verdict,
    weights_phrase,
)
from hfkv.render.rows import code, escape, markdown_table
from hfkv.render.units import dtype, integer, size

__all__ = ["inspect_markdown"]


def inspect_markdown(report: Report, *, explain: bool = False, speed: bool = False) -> str:
    """Return the report: verdict, sizes, GPUs, layers, the simple formula, warnings."""
    blocks = _blocks(report, explain=explain, speed=speed)
    return "\n".join(f"{block.rstrip()}\n" for block in blocks)


def _blocks(report: Report, *, explain: bool, speed: bool) -> Iterator[str]:
    target = report.files.target
    version = f" at {code(target.sha)}" if target.sha else ""
    yield f"### {code(target.id)}{version}"
    yield f"**{escape(verdict(report)[1])}**"
    yield escape(model_phrase(report))
    yield _sizes(report)
    if report.fit:
        yield _gpus(report)
        yield from fit_blocks(report)
    if speed and report.fit:
        yield speed_block(report)
    if report.architecture.layers:
        yield _layers(report)
    if report.kv is not None:
        yield _simple(report.kv)
    if report.findings:
        yield "".join(_finding(finding) for finding in report.findings)
    word = report.architecture.confidence.name.lower()
    doubts = "".join(f" {escape(doubt)}." for doubt in report.architecture.doubts)
    phrase = confidence_phrase(report.architecture, report.evidence)
    yield f"Confidence: **{word}**, {phrase}.{doubts}"
    if explain:
        yield from explained(report)


def _sizes(report: Report) -> str:
    rows: list[tuple[str, str, str, str]] = []
    if report.resident is not None:
        loaded = report.resident.loaded_bytes
        origin = f"{report.resident.source}, {escape(weights_phrase(report))}"
        if report.what_if is not None:
            origin = escape(weights_phrase(report))
        rows.append(("weights", size(loaded), integer(loaded), origin.removesuffix(", ")))
    if report.kv is not None:
        kv = report.kv
        held = f"{load_phrase(report, kv)}, {dtype(kv.dtype)}"
        rows.append(("KV cache", size(kv.bytes), integer(kv.bytes), held))
        rows += [_component(part) for part in kv.components]
        token = kv.bytes_per_token
        rows.append(("each further token", size(token), integer(token), ""))
    return markdown_table(("", ">size", ">bytes", ""), rows)


def _component(part: Component) -> tuple[str, str, str, str]:
    entries = f"{integer(part.slots)} × {integer(part.bytes_per_slot)} B"
    product = f"{counted(part.layers, 'layer')} × {entries}, a sequence"
    return f"{escape(part.name)}", size(part.bytes), integer(part.bytes), product


def _gpus(report: Report) -> str:
    rows = (map(escape, fit_cells(report, fit)) for fit in report.fit)
    return markdown_table(fit_heading(overhead=True), rows)


def _layers(report: Report) -> str:
    rows = [
        (
            integer(len(group.indices)),
            group.kind.replace("_", " "),
            heads(group),
            dims(group),
            integer(group.window),
            format_ranges(group.indices),
        )
        for group in group_layers(report.architecture.layers)
    ]
    layers = ">layers, from tensors" if report.architecture.from_tensors else ">layers"
    heading = (layers, "kind", ">KV heads", ">head dim", ">window", "which")
    return markdown_table(heading, rows)


def _simple(kv: KVReport) -> str:
    simple = kv.simple_formula
    if simple.applies:
        return "The simple formula applies."
    said = "" if simple.bytes is None else f" (it would say {size(simple.bytes)})"
    reasons = "; ".join(escape(reason) for reason in simple.why_not)
    return f"The simple formula does not apply{said}: {reasons}."


def _finding(finding: Finding) -> str:
    hint = f" *{escape(finding.hint)}*" if finding.hint else ""
    return f"- {code(finding.code)} {escape(finding.message)}{hint}\n"
