"""Why: which layers keep what, and what the simple formula would have said."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from hfkv.core.counts import counted
from hfkv.core.engines.titles import engine_title
from hfkv.core.kv import Component, KVReport
from hfkv.core.readings import told_apart
from hfkv.core.report import Report
from hfkv.core.stores import Layer
from hfkv.render.layers import dims, group_layers, heads, places
from hfkv.render.phrases import fullest_stage, load_phrase
from hfkv.render.sheet import Sheet, quiet, table
from hfkv.render.units import clean, dtype, integer, ratio, size

__all__ = ["cache_section"]

# Engines that check at start-up for something else than they hold later.
_THREE_FIGURES = ("vllm",)

_UNITS = {
    "token": "tokens",
    "window": "window",
    "chunk": "chunk",
    "ratio": "compressed",
    "fixed": "",
    "source": "positions",
}


_UNBROKEN = 30  # a longer list of layers may be broken after its commas


def cache_section(report: Report) -> Iterator[RenderableType]:
    """Yield the layers, the components of the cache, and the simple formula beside them."""
    if report.architecture.from_tensors:
        yield quiet("from tensors:")
    if report.architecture.layers:
        yield _layers(report.architecture.layers)
    reasons, advice = told_apart(report.architecture.doubts, report.architecture.confidence)
    for doubt in reasons:
        yield Text(clean(doubt), style="yellow")
    if advice is not None:
        yield quiet(f"→ {clean(advice)}")
    if report.kv is None:
        return
    if report.kv.components:
        yield ""
        yield _components(report, report.kv)
        yield _totals(report, report.kv)
        if report.kv.engine in _THREE_FIGURES:
            yield from _on_a_gpu(report.kv)
    yield ""
    yield from _simple(report, report.kv)


def _layers(layers: tuple[Layer, ...]) -> Sheet:
    grid = table(">layers", "kind", ">KV heads", ">head dim", ">window", "which")
    groups = group_layers(layers)
    for group, which in zip(groups, places(groups), strict=True):
        grid.add_row(
            integer(len(group.indices)),
            group.kind.replace("_", " "),
            heads(group),
            dims(group),
            integer(group.window),
            quiet(which if len(which) <= _UNBROKEN else which.replace(",", ", ")),
        )
    return grid


def _components(report: Report, kv: KVReport) -> Sheet:
    whose = "the longest sequence" if report.workload.seq_lens else "each sequence"
    grid = table(f"{whose} keeps", ">layers", ">entries", "", ">bytes each", ">in all")
    for part in kv.components:
        grid.add_row(
            clean(part.name, 60),
            f"{integer(part.layers)} ×",
            integer(part.slots),
            quiet(_UNITS.get(part.growth, clean(part.growth, 40))),
            _each(part),
            size(part.bytes),
        )
    return grid


def _each(part: Component) -> Text:
    text = Text(size(part.bytes_per_slot))
    return text.append(f" {dtype(part.dtype)}", style="dim")


def _totals(report: Report, kv: KVReport) -> Text:
    whose = "in the longest sequence" if report.workload.seq_lens else "a sequence"
    text = Text(f"{size(kv.bytes_per_sequence)} {whose}", style="bold")
    fixed, more = kv.fixed_bytes_per_sequence, kv.bytes_per_token
    always = [f"{size(fixed)} whatever its length"] if fixed else []
    each = [f"{size(more)} for each further token"] if more else []
    return text.append(f": {', '.join(always + each)}", style="not bold")


def _on_a_gpu(kv: KVReport) -> Iterator[RenderableType]:
    """Yield what the engine makes of the need on one GPU, and in which stage that is."""
    yield ""
    yield _three_figures(kv)
    stage = fullest_stage(kv)
    if stage is not None:
        yield quiet(stage)


def _three_figures(kv: KVReport) -> RenderableType:
    ideal = kv.per_gpu.ideal_bytes_per_sequence
    admission = kv.per_gpu.admission_bytes_per_sequence
    steady = kv.per_gpu.steady_bytes_per_sequence
    if len({ideal, admission, steady}) == 1:
        same = f"ideal, admission and steady state of a sequence are the same, {size(ideal)}"
        return Text(f"On one GPU of {engine_title(kv.engine)} {same}.")
    grid = table(f"on one GPU of {engine_title(kv.engine)}", ">a sequence", "")
    grid.add_row("ideal", size(ideal), quiet("what the model needs"))
    bounds = "and what bounds the sequences"
    if admission < steady:  # vLLM 0.14 to 0.19 checks one group of layers only
        bounds = "less than a sequence takes"
    counted = f"what its start-up check counts, {bounds}"
    grid.add_row("admission", size(admission), quiet(counted))
    grid.add_row("steady state", size(steady), quiet("what a decoding sequence holds"))
    return grid


def _simple(report: Report, kv: KVReport) -> Iterator[RenderableType]:
    simple = kv.simple_formula
    if simple.applies:
        yield Text("The simple formula applies: ").append(_product(report, kv), style="dim")
        return
    yield Text(f"{_said(simple.bytes, kv.bytes)} does not apply here:")
    for reason in simple.why_not:
        yield Text(f"- {clean(reason)}")


def _said(simple: int | None, truth: int) -> str:
    """Return what the simple formula makes of this model, measured against the truth."""
    if simple is None:
        return "The simple formula"
    if simple == truth:
        return f"The simple formula happens to say the same, {size(simple)}, but"
    if not truth or not simple:
        return f"The simple formula would say {size(simple)}, but"
    if simple < truth:
        times = ratio(truth, simple)
        return f"The simple formula would say {size(simple)}, the truth is {times} that; it"
    return f"The simple formula would say {size(simple)}, {ratio(simple, truth)} the truth; it"


def _product(report: Report, kv: KVReport) -> str:
    """Return the simple formula with its numbers; it applies, so all layers are alike."""
    layers = report.architecture.layers
    group, part = group_layers(layers)[0], kv.components[0]
    tokens = f"{counted(kv.tokens, 'token')} × {counted(kv.sequences, 'sequence')}"
    if report.workload.seq_lens:
        tokens = load_phrase(report, kv)
    each, left = divmod(part.bytes_per_slot, part.elements_per_slot)
    values = dtype(part.dtype) if left else counted(each, "byte")
    deep, heads = counted(len(layers), "layer"), group.num_key_value_heads
    wide = f"{deep} × {counted(part.elements_per_slot, 'value')}"
    if heads is not None:
        wide = f"2 × {deep} × {counted(heads, 'KV head')} × {group.head_dim} wide"
    return f"{wide} × {values} × {tokens} = {size(kv.bytes)}."
