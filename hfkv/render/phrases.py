"""Short sentences that more than one format says: the verdict, the load, the model."""

from __future__ import annotations

from collections.abc import Sized
from enum import Enum
from typing import TYPE_CHECKING

from hfkv.core.counts import counted
from hfkv.render.units import NOTHING, clean, dtype, integer, size, size_or_none, things

if TYPE_CHECKING:  # the command line says `3 models` before it needs to know what a report is
    from hfkv.core.architecture import Architecture
    from hfkv.core.fit import FitReport
    from hfkv.core.kv import KVReport
    from hfkv.core.plans import Plan
    from hfkv.core.report import Report
    from hfkv.core.weights import QuantizationReport, WeightReport

__all__ = [
    "CONFIDENCE",
    "MARKS",
    "Verdict",
    "budget_phrase",
    "format_phrase",
    "fullest_stage",
    "gpu_phrase",
    "load_phrase",
    "model_phrase",
    "most",
    "overhead_origin",
    "plan_cells",
    "plan_phrase",
    "scheme_phrase",
    "share",
    "share_phrase",
    "verdict",
    "weights_origin",
    "weights_phrase",
]

# The ladder in words, best first.
CONFIDENCE = {
    "confirmed": "the config and the tensors agree",
    "declared": "the config says so; no tensor was compared",
    "inferred": "hfkv does not know this model type and read it like any other",
    "doubtful": "something does not add up",
    "unknown": "the cache cannot be sized from what was read",
}

_WEIGHTS_SOURCE = {
    "safetensors-headers": "exact, from the safetensors headers",
    "hub-api": "exact, from the Hub's own count",
    "file-sizes": "from the sizes of the files",
}

_NO_WEIGHTS = "The size of the weights is not known."


class Verdict(Enum):
    """How an answer feels: good, good if an estimate holds, bad, neither, or not known."""

    FITS = "fits"
    TIGHT = "fits tightly"
    SHORT = "does not fit"
    NEEDS = "needs"
    UNKNOWN = "unknown"


MARKS = {
    Verdict.FITS: "✔",
    Verdict.TIGHT: "≈",
    Verdict.SHORT: "✘",
    Verdict.NEEDS: "●",
    Verdict.UNKNOWN: "?",
}


def gpu_phrase(fit: FitReport) -> str:
    """Return `RTX 4090` or `4 × RTX 4090`."""
    name = clean(fit.name, 80)
    return name if fit.count == 1 else f"{fit.count} × {name.removeprefix('a ')}"


def most(report: Report, fit: FitReport) -> tuple[str, str]:
    """Return how many sequences, and how long a one: `any` where memory does not limit it."""
    sequences, longest = integer(fit.max_sequences), integer(fit.max_context)
    kv = report.kv
    if kv is None or not fit.fits or kv.bytes_per_token:
        return sequences, longest
    if not kv.components:
        return "any", NOTHING
    return sequences, "any" if report.architecture.max_context is None else longest


def plan_phrase(plan: Plan) -> str:
    """Return `tensor 4 × pipeline 2`, `tensor 8`, `pipeline 8`."""
    sizes = {"tensor": plan.tensor_parallel_size, "pipeline": plan.pipeline_parallel_size}
    return " × ".join(f"{name} {n}" for name, n in sizes.items() if n > 1) or "one GPU"


def plan_cells(plan: Plan) -> tuple[str, ...]:
    """Return a plan and its weights, a sequence, what of it is copied, and sequences, on a GPU."""
    return (
        plan_phrase(plan),
        size_or_none(plan.weights_bytes_per_gpu),
        size(plan.kv_bytes_per_sequence_per_gpu),
        size(plan.copied_kv_bytes_per_gpu),
        integer(plan.max_sequences),
    )


def share(fit: FitReport) -> str:
    """Return the utilization as `0.9`."""
    numerator, denominator = fit.utilization
    return f"{numerator / denominator:.4g}"


def budget_phrase(report: Report, fit: FitReport) -> str:
    """Return what the engine may take of one GPU: `79.1 GiB × 0.9 = 71.2 GiB`."""
    per = " per GPU" if fit.count > 1 else ""
    whole, budget = size(fit.memory_bytes), size(fit.budget_bytes)
    if report.workload.engine != "trtllm":
        return f"{whole}{per} × {share(fit)} = {budget}"
    if not fit.kv_pool_bytes_per_gpu:
        return f"{budget}{per}"
    return f"{whole}{per}, {share_phrase(report, fit)} = {budget}"


def share_phrase(report: Report, fit: FitReport) -> str:
    """Return what the budget is: TensorRT-LLM takes a share of what weights and overhead leave."""
    if report.workload.engine != "trtllm":
        return f"memory × {share(fit)}"
    return f"weights + overhead + {share(fit)} × the rest"


def load_phrase(report: Report, kv: KVReport) -> str:
    """Return what is to be held: `131,072 tokens × 1 sequence`."""
    work = report.workload
    if work.seq_lens:
        low, high = integer(min(work.seq_lens)), integer(max(work.seq_lens))
        span = low if low == high else f"{low} to {high}"
        beams = f", {work.beams} beams each" if work.beams > 1 else ""
        word = "token" if max(work.seq_lens) == 1 else "tokens"
        return f"{counted(len(work.seq_lens), 'sequence')} of {span} {word}{beams}"
    tokens = counted(kv.tokens, "token")
    if work.prompt is not None and work.output:
        tokens = f"{integer(work.prompt)} + {integer(work.output)} tokens"
    if kv.beams > 1:
        return f"{tokens} × {counted(kv.sequences // kv.beams, 'request')} of {kv.beams} beams"
    return f"{tokens} × {counted(kv.sequences, 'sequence')}"


def fullest_stage(kv: KVReport) -> str | None:
    """Return which stage of a pipeline reserves most, None where all reserve the same."""
    sizes = [stage.per_gpu.admission_bytes_per_sequence for stage in kv.per_stage]
    if len(set(sizes)) < 2:
        return None
    first = sizes.index(max(sizes))
    layers = counted(len(kv.per_stage[first].layers), "layer")
    return f"Stage {first + 1} of {len(sizes)} is the fullest, with {layers}."


def model_phrase(report: Report) -> str:
    """Return the model in one line: class, parameters, format, attention, longest context."""
    a, w = report.architecture, report.weights
    return ", ".join(part for part in (_name(a), *_numbers(w), *_structure(a)) if part)


def _name(a: Architecture) -> str:
    return clean(a.class_name or a.model_type or "no architecture named", 80)


def _numbers(w: WeightReport | None) -> tuple[str, ...]:
    if w is None:
        return ()
    least = "" if w.complete else "at least "
    parameters = f"{least}{things(w.parameters, 'parameter')}" if w.parameters is not None else ""
    return parameters, format_phrase(w)


# Layouts that are a number format, and those that pack whole numbers.
_FLOATS = {"fp8", "fp4", "nf4", "mxfp4", "mxfp6", "mxfp8", "nvfp4"}
_INTEGERS = {
    *("awq", "gptq", "int8", "llm-int8", "marlin-24", "modelopt-awq", "pack-quantized"),
    "quark-int4",
}
_METHODS = {
    **{name: name.upper() for name in ("aqlm", "awq", "eetq", "exl2", "exl3", "gptq", "higgs")},
    **{name: name.upper() for name in ("hqq", "mlx", "vptq")},
    "auto-round": "AutoRound",
    "bitnet": "BitNet",
    "quanto": "Quanto",
    "quark": "Quark",
    "spqr": "SpQR",
}


def weights_origin(source: str, *, whole: bool) -> str:
    """Return where the figures of the weights come from; of a part it is said first."""
    origin = _WEIGHTS_SOURCE.get(source, source)
    return origin if whole else f"a part, for files are missing; {origin}"


def overhead_origin(parts: Sized, nbytes: int) -> str:
    """Return where the overhead comes from; an engine with no share at all has none."""
    if parts:
        return "estimated"
    return "as given" if nbytes else "none"


def format_phrase(w: WeightReport) -> str:
    """Return the quantization, or the stored dtype when one dtype holds nearly everything."""
    scheme = w.quantization
    if scheme is not None and scheme.format != "none":
        return scheme_phrase(scheme)
    if not w.by_dtype:
        return ""
    name, total = max(w.by_dtype.items(), key=lambda item: item[1].bytes)
    return clean(name, 40) if 100 * total.bytes >= 99 * w.bytes else f"mostly {clean(name, 40)}"


def scheme_phrase(scheme: QuantizationReport) -> str:
    """Return a number format and who made it of the weights: `int4 (AWQ)`, `fp8`."""
    layouts = set(scheme.layouts or (scheme.format,))
    method = _METHODS.get(scheme.format, clean(scheme.format, 40))
    if len(layouts) == 1 and layouts <= _FLOATS:
        (number,) = layouts
        return number if number == scheme.format else f"{number} ({method})"
    if scheme.bits is None:
        return method
    number = f"int{scheme.bits}" if layouts <= _INTEGERS else f"{scheme.bits}-bit"
    return f"{number} ({method})"


def weights_phrase(report: Report) -> str:
    """Return the format of the weights that are counted on, said to be an estimate if it is."""
    if report.what_if is not None:
        return f"{dtype(report.what_if.name)}, estimated"
    return format_phrase(report.weights) if report.weights else ""


def _structure(a: Architecture) -> tuple[str, ...]:
    names = {"none": "no attention", "mixed": "mixed attention"}
    attention = names.get(a.attention or "", a.attention or "")  # nothing is said of the unknown
    if a.kind is not None and a.kind != "decoder":
        attention = a.kind if a.attention == "none" else f"{a.kind}, {attention}"
    experts = a.experts
    routed = ""
    if experts is not None:
        active = f", {experts.active} active" if experts.active is not None else ""
        routed = f"{counted(experts.total, 'expert')}{active}"
    longest = f"up to {counted(a.max_context, 'token')}" if a.max_context else ""
    return attention, routed, longest


def verdict(report: Report) -> tuple[Verdict, str]:
    """Return the one answer that was asked for, as a feeling and a sentence."""
    if report.kv is None:
        return Verdict.UNKNOWN, _unknown(report.weights)
    if not report.fit:
        return Verdict.NEEDS, _needs(report, report.kv)
    if len(report.fit) == 1:
        return _one_gpu(report, report.kv, report.fit[0])
    return _several(report, report.kv)


def _asked(report: Report, kv: KVReport) -> str:
    """Return what is to be held, with the format of the weights where it is a what-if."""
    held = load_phrase(report, kv)
    found = report.what_if
    return held if found is None else f"{held}, weights in {dtype(found.name)} (an estimate)"


def _several(report: Report, kv: KVReport) -> tuple[Verdict, str]:
    held, choices = _asked(report, kv), len(report.fit)
    fitting = [fit for fit in report.fit if fit.fits is not False]
    if not fitting:
        hardly = sum(fit.verdict == Verdict.TIGHT.value for fit in report.fit)
        if hardly:
            only = "only if overhead stays at its lowest"
            return Verdict.TIGHT, f"Hardly fits on {hardly} of {choices} choices, {only}: {held}."
        return Verdict.SHORT, f"Does not fit on any of {choices} choices: {held}."
    smallest = min(fitting, key=lambda fit: fit.memory_bytes * fit.count)
    every = "both" if choices == 2 else f"all {choices}"
    some = every if len(fitting) == choices else f"{len(fitting)} of {choices}"
    where = f"{some} choices, the smallest {gpu_phrase(smallest)}"
    if smallest.fits is None:
        return Verdict.NEEDS, f"The cache alone fits on {where}: {held}. {_NO_WEIGHTS}"
    if smallest.verdict == Verdict.TIGHT.value:
        return Verdict.TIGHT, f"Fits on {where}, which is tight: {held}."
    return Verdict.FITS, f"Fits on {where}: {held}."


def _unknown(weights: WeightReport | None) -> str:
    least = "" if weights is None or weights.complete else "at least "
    known = f" The weights take {least}{size(weights.bytes)}." if weights else ""
    return f"The cache cannot be sized.{known}"


def _needs(report: Report, kv: KVReport) -> str:
    cache, weights = f"{size(kv.bytes)} of KV cache for {load_phrase(report, kv)}", report.resident
    if weights is None:
        return f"Needs {cache}, beside the weights, which are not known."
    if not weights.complete:
        return f"Needs {cache}, beside weights of which a part is missing."
    loaded = f"{size(weights.loaded_bytes)} of weights"
    if report.what_if is not None:
        loaded += f" in {dtype(report.what_if.name)} (an estimate)"
    if kv.bytes == 0 and not kv.components:
        return f"Needs {loaded} and keeps no cache."
    return f"Needs {size(weights.loaded_bytes + kv.bytes)}: {loaded} and {cache}."


def _one_gpu(report: Report, kv: KVReport, fit: FitReport) -> tuple[Verdict, str]:
    where, held = gpu_phrase(fit), _asked(report, kv)
    tight = fit.verdict == Verdict.TIGHT.value
    if fit.fits is False:
        per = " per GPU" if fit.count > 1 else ""
        short = f"short by {size(fit.short_by_bytes)}{per} for {held}"
        if tight:
            least = "It would fit only if overhead stays at its lowest."
            return Verdict.TIGHT, f"Hardly fits on {where}: {short}. {least}"
        return Verdict.SHORT, f"Does not fit on {where}: {short}."
    if fit.fits is None:
        return Verdict.NEEDS, f"The cache alone fits on {where}: {held}. {_NO_WEIGHTS}"
    if fit.kv_bytes_per_sequence_per_gpu == 0:
        return Verdict.FITS, f"Fits on {where}, and keeps no cache."
    room = f"Room for {counted(fit.max_sequences, 'such sequence')}"
    if kv.beams > 1:
        room = f"Room for {counted(fit.max_sequences // kv.beams, 'such request')}"
    if tight:
        return (
            Verdict.TIGHT,
            f"Fits tightly on {where}: {held}. {room} if overhead is as estimated.",
        )
    return Verdict.FITS, f"Fits on {where}: {held}. {room}."
