"""Coded warnings: what is true of this model and workload that a person should know.

One small function per subject; each returns zero or more findings. `codes.py` says what
every code means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from hfkv.core.architecture import Architecture
from hfkv.core.counts import counted
from hfkv.core.engines.titles import engine_title
from hfkv.core.engines.versions import version_findings
from hfkv.core.families.irregular import PROMPT_KEPT
from hfkv.core.files import ModelFiles
from hfkv.core.kv import KVReport
from hfkv.core.precision import ASSUMED, Precision
from hfkv.core.quantization import Scheme, loadable
from hfkv.core.readings import Confidence, Finding, told_apart
from hfkv.core.record import dataclass
from hfkv.core.weights import WeightReport
from hfkv.core.workload import GpuChoice, Workload

if TYPE_CHECKING:
    from hfkv.core.fit import FitReport
    from hfkv.core.what_if import WhatIf

__all__ = ["Facts", "find"]

_HINTS = {
    "mla": "2·L·Hkv·D·T·B·S does not apply; use the figure above",
    "hybrid": "what grows with tokens and what does not are listed apart above",
    "sliding-window": "longer contexts cost less than the simple formula says",
    "cross-attention": "another source length: --source-tokens N",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything a finding may look at.

    `needed` is what the model alone needs for one sequence, None under engine "none";
    `what_if` the weights in the format that the workload asks about, None where none is.
    """

    files: ModelFiles
    architecture: Architecture
    weights: WeightReport | None
    kv: KVReport | None
    precision: Precision
    scheme: Scheme | None
    fit: tuple[FitReport, ...]
    workload: Workload
    needed: int | None = None
    what_if: WhatIf | None = None


def _formula(facts: Facts) -> Iterator[Finding]:
    """Say why the simple formula does not apply."""
    if facts.kv is None:
        return
    formula = facts.kv.simple_formula
    for code, sentence in zip(formula.codes, formula.why_not, strict=True):
        if code == "engine-layout":
            continue  # told with its figures by _engine
        apart = code != "hybrid" or facts.kv.bytes_per_token > 0
        yield Finding(code=code, message=sentence, hint=_HINTS.get(code) if apart else None)


def _engine(facts: Facts) -> Iterator[Finding]:
    """Say when an engine keeps more or less than the model needs."""
    kv, needed = facts.kv, facts.needed
    if kv is not None and needed is not None and kv.bytes_per_sequence != needed:
        yield Finding(
            code="engine-layout",
            message=f"{engine_title(kv.engine)} keeps {kv.bytes_per_sequence:,} bytes a sequence "
            f"where the model needs {needed:,}",
            hint="--engine none shows the raw need",
        )


def _windows(facts: Facts) -> Iterator[Finding]:
    """Say when a stated window changes nothing."""
    arch, kv = facts.architecture, facts.kv
    window = arch.stated_window
    if kv is None or window is None:
        return
    windowed = [s for layer in arch.layers if (s := layer.attention) and s.window]
    if arch.text_model_type in PROMPT_KEPT:
        yield Finding(
            code="prompt-kept",
            message=f"the window of {counted(window, 'token')} is over generated ones only: every "
            "token is counted as prompt, which is the most that is kept",
        )
    elif not windowed:
        yield Finding(
            code="window-unused",
            message=f"sliding_window is {window:,} and switched off: every token is kept",
        )
    elif windowed and "sliding-window" not in kv.simple_formula.codes and not windowed[0].chunked:
        yield Finding(
            code="window-beyond-context",
            message=f"the window of {counted(window, 'token')} is not shorter than "
            f"{counted(kv.tokens, 'token')}",
        )


def _head_dim(facts: Facts) -> Iterator[Finding]:
    """Say when hidden_size / heads would have been the wrong width."""
    arch = facts.architecture
    hidden, heads, dim = arch.hidden_size, arch.num_attention_heads, arch.head_dim
    if hidden and heads and dim and hidden != heads * dim and arch.kind == "decoder":
        yield Finding(
            code="head-dim",
            message=f"head_dim is {dim}, not hidden_size / heads = {hidden / heads:g}",
        )


def _dtypes(facts: Facts) -> Iterator[Finding]:
    """Say which formats were narrowed, assumed or declared."""
    precision, scheme, weights = facts.precision, facts.scheme, facts.weights
    if precision.stored_float32:
        size = "" if weights is None else f" ({weights.bytes:,} bytes stored)"
        yield Finding(
            code="float32-checkpoint",
            message=f"the checkpoint is float32{size}; engines load it as 16 bit",
            hint="the cache is counted in 16 bit; --kv-dtype fp32 counts it in 32",
        )
    assumed = ASSUMED in (precision.cache_source, precision.compute_source)
    if assumed and facts.kv is not None:
        yield Finding(
            code="dtype-assumed",
            message="neither config nor tensors name a dtype: 16 bit is assumed",
            hint="say which with --kv-dtype",
        )
    if scheme is None or scheme.method == "none":
        return
    if scheme.kv_dtype and facts.workload.kv_dtype == "auto":
        yield Finding(
            code="kv-dtype-declared",
            message=f"the checkpoint declares {scheme.kv_dtype} for the KV cache "
            f"({scheme.kv_source})",
            hint="--kv-dtype bf16 counts it unquantized",
        )
    elif scheme.kv_dtype is None and facts.kv is not None:
        still = "still " if facts.workload.kv_dtype == "auto" else ""
        yield Finding(
            code="kv-dtype-not-declared",
            message=f"the weights are quantized ({scheme.method}), the KV cache is {still}"
            f"{facts.kv.dtype}",
        )


def _quantization(facts: Facts) -> Iterator[Finding]:
    """Say where config and tensors disagree, and what the engine cannot load."""
    scheme, engine = facts.scheme, facts.workload.engine
    if scheme is not None:
        for sentence in scheme.disagreements:
            yield Finding(code="quantization-mismatch", message=sentence)
        if loadable(scheme.method, engine) is False:
            yield Finding(
                code="not-loadable",
                message=f"{engine_title(engine)} does not load {scheme.method} weights",
                hint="choose another --engine, or another repository of this model",
            )
    if facts.weights is not None and facts.weights.parameters is None:
        why = "a packing is unknown: the bytes are exact, the parameters are not"
        if facts.weights.source == "file-sizes":
            why = "no header was read: only the sizes of the files are known, not the parameters"
        yield Finding(code="parameters-unknown", message=why)


def _weights_dtype(facts: Facts) -> Iterator[Finding]:
    """Say when the weights are counted in a format that they are not in."""
    name, found = facts.workload.weights_dtype, facts.what_if
    if name is None:
        return
    if found is None:
        why = "a packing is unknown" if facts.weights else "no weights were read"
        yield Finding(
            code="weights-not-estimated",
            message=f"{why}: there is nothing to estimate {name} weights from",
        )
        return
    yield Finding(
        code="weights-estimated",
        message=f"the weights are counted as {found.name}, an estimate: "
        + "; ".join(found.assumptions),
    )


def _context(facts: Facts) -> Iterator[Finding]:
    """Say when the context was assumed, or is longer than the model was made for."""
    arch, kv = facts.architecture, facts.kv
    if kv is None or arch.kind == "encoder":
        return
    asked = facts.workload.context or max(facts.workload.seq_lens, default=None)
    if arch.max_context is None and asked is None:
        yield Finding(
            code="context-assumed",
            message=f"the config states no maximum context: {kv.tokens:,} tokens are assumed",
            hint="say how many with --context",
        )
    elif arch.max_context is not None and asked is not None and asked > arch.max_context:
        yield Finding(
            code="context-above-maximum",
            message=f"{asked:,} tokens are more than the model's {arch.max_context:,}",
            hint="engines refuse it, or need a rope scaling setting",
        )
    elif asked is None and arch.max_context is not None and kv.tokens != arch.max_context:
        more = kv.tokens > arch.max_context
        why = "a factor of its rope stretches them" if more else "LongRoPE stretches that length"
        yield Finding(
            code="context-engine-default",
            message=f"{engine_title(kv.engine)} serves {kv.tokens:,} {'for' if more else 'of'} the "
            f"model's {arch.max_context:,} tokens unless it is told: {why}",
            hint=f"--context {arch.max_context} counts the model's maximum",
        )


def _prefix(facts: Facts) -> Iterator[Finding]:
    """Say when a common prefix saves nothing."""
    prefix, kv = facts.workload.shared_prefix, facts.kv
    if prefix and kv is not None and kv.sequences > 1 and not kv.shared_bytes:
        name = "the raw need" if kv.engine == "none" else engine_title(kv.engine)
        yield Finding(
            code="prefix-not-shared",
            message=f"{name} has the prefix of {counted(prefix, 'token')} once for each of "
            f"{kv.sequences:,} sequences",
            hint="vLLM, SGLang and TensorRT-LLM keep full blocks of it once",
        )


def _parallel(facts: Facts) -> Iterator[Finding]:
    """Say what tensor parallelism does not divide."""
    arch = facts.architecture
    tp = max((fit.tensor_parallel_size for fit in facts.fit), default=1)
    if tp > 1 and arch.attention == "MLA":
        yield Finding(
            code="replicated-latent",
            message=f"each of {tp} GPUs holds the whole latent cache",
            hint="data-parallel attention avoids the copies where the engine has it",
        )
    heads = arch.num_key_value_heads
    if heads and tp > heads and arch.attention in ("MQA", "GQA", "MHA"):
        yield Finding(
            code="replicated-heads",
            message=f"{counted(heads, 'KV head')} on {tp} GPUs: each GPU holds one whole head",
        )


def _without_cache(facts: Facts) -> Iterator[Finding]:
    """Say what is known of the fit where the cache is not: the weights alone may be too large."""
    deployment, weights = facts.workload.deployment, facts.weights
    if facts.kv is not None or not deployment.gpus:
        return
    from hfkv.core.budget import utilization  # noqa: PLC0415  for a GPU only
    from hfkv.core.fit import on_gpus  # noqa: PLC0415  the same

    if weights is not None and facts.what_if is not None:
        weights = facts.what_if.instead_of(weights)
    least = on_gpus(weights, facts.workload) if weights and weights.complete else 0
    share = utilization(deployment, facts.workload.engine)
    short = {gpu: least - int(gpu.memory_bytes * share) * gpu.count for gpu in deployment.gpus}
    over = [gpu for gpu in deployment.gpus if short[gpu] > 0]
    if over:
        needed = f"{'up to ' if len(over) > 1 else ''}{max(short.values()):,} bytes more"
        yield Finding(
            code="weights-too-large",
            message=f"does not fit {_gpus(over)}: the weights alone need {needed}",
        )
    if rest := [gpu for gpu in deployment.gpus if short[gpu] <= 0]:
        yield Finding(
            code="fit-unknown",
            message=f"whether it fits {_gpus(rest)} is not known: the size of the cache is not",
        )


def _gpus(choices: list[GpuChoice]) -> str:
    names = [f"{g.count} × {g.name}" if g.count > 1 else g.name for g in choices]
    shown = " and ".join(names) if len(names) < 3 else ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _confidence(facts: Facts) -> Iterator[Finding]:
    """Say how sure the reading is when it is not."""
    arch = facts.architecture
    codes = {
        Confidence.UNKNOWN: "architecture-unknown",
        Confidence.DOUBTFUL: "doubtful",
        Confidence.INFERRED: "inferred",
    }
    code = codes.get(arch.confidence)
    if code is not None and arch.doubts:
        reasons, advice = told_apart(arch.doubts, arch.confidence)
        yield Finding(code=code, message="; ".join(reasons), hint=advice)


def _reading(facts: Facts) -> Iterator[Finding]:
    """Say what was odd in the files, and what was not there."""
    for problem in facts.files.problems:
        yield Finding(code=problem.code, message=problem.message, hint=problem.hint)
    if facts.weights is None:
        yield Finding(
            code="weights-unknown",
            message="no weights were read: sizes and parameters are not known",
            hint="inspect the repository or the folder instead of its config.json"
            if facts.files.target.kind == "file"
            else None,
        )
    if facts.architecture.mtp_layers and facts.kv is not None:
        count, drafted = facts.architecture.mtp_layers, facts.workload.deployment
        told = "not counted in the cache: engines load them for speculative decoding only"
        if drafted.num_speculative_tokens:
            told = "loaded to draft tokens: counted in what one GPU takes"
        yield Finding(
            code="mtp-layers",
            message=f"{count} next-token prediction layer{'s' * (count > 1)} {told}",
        )
    if facts.architecture.remote_code:
        yield Finding(
            code="remote-code",
            message="the config names code of its own (auto_map)",
            hint="engines run it only with --trust-remote-code",
        )


CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    _confidence,
    _without_cache,
    _reading,
    _formula,
    _engine,
    _windows,
    _head_dim,
    _dtypes,
    _quantization,
    _weights_dtype,
    _context,
    _prefix,
    _parallel,
    lambda facts: version_findings(facts.workload.engine, facts.workload.deployment.engine_version),
)


def find(facts: Facts) -> tuple[Finding, ...]:
    """Return every finding, most fundamental first."""
    return tuple(finding for check in CHECKS for finding in check(facts))
