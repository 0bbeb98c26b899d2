"""analyze(): the one place where the steps are composed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from hfkv.core.architecture import Architecture, read_architecture
from hfkv.core.engines.engine import Engine
from hfkv.core.engines.registry import engine_named
from hfkv.core.evidence import Evidence, witness
from hfkv.core.files import ModelFiles
from hfkv.core.findings import Facts, find
from hfkv.core.kv import KVReport, measure, per_rank, size_cache
from hfkv.core.precision import Precision, choose_precision
from hfkv.core.quantization import Scheme, read_scheme
from hfkv.core.readings import Confidence, Finding
from hfkv.core.weights import WeightReport, weigh
from hfkv.core.workload import Workload
from hfkv.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from hfkv.core.fit import FitReport

__all__ = ["Report", "analyze"]

# Where neither the user nor the config says how long a sequence is.
_ASSUMED_CONTEXT = 4096
_LONGEST = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything hfkv has to say about one model and one workload.

    `weights` is None when only a config was given; `kv` is None when the architecture is
    unknown; `evidence` is what the tensors said of the architecture.
    """

    files: ModelFiles
    workload: Workload
    architecture: Architecture
    evidence: Evidence = field(default_factory=Evidence)
    weights: WeightReport | None
    kv: KVReport | None
    fit: tuple[FitReport, ...]
    findings: tuple[Finding, ...]


def analyze(files: ModelFiles, workload: Workload | None = None) -> Report:
    """Answer the question for one model: deterministic, pure, raises only HfkvError.

    Raises MalformedError for files that contradict themselves, UsageError for a workload
    that makes no sense. An architecture that cannot be sized gives a report without `kv`.
    """
    work = workload or Workload()
    _check(work)
    engine = engine_named(work.engine)
    arch, evidence = witness(read_architecture(files), files)
    scheme = read_scheme(files)
    precision = _precision(arch, files, engine, scheme, work)
    weights = _resident(weigh(files), precision)
    arch, kv = _cache(arch, engine, precision, work)
    facts = Facts(
        files=files,
        architecture=arch,
        weights=weights,
        kv=kv,
        precision=precision,
        scheme=scheme,
        fit=(),
        workload=work,
        needed=_needed(arch, precision, work, kv),
    )
    facts = replace(facts, fit=_fits(facts, engine))
    return Report(
        files=files,
        workload=work,
        architecture=arch,
        evidence=evidence,
        weights=weights,
        kv=kv,
        fit=facts.fit,
        findings=find(facts),
    )


def _check(work: Workload) -> None:
    lengths = (*work.seq_lens, *((work.context,) if work.context is not None else ()))
    if any(not 0 < length <= _LONGEST for length in lengths):
        raise UsageError("a sequence length must be a positive number of tokens")
    if not 0 < work.sequences <= _LONGEST:
        raise UsageError("the concurrency must be a positive number of sequences")
    if work.source_tokens is not None and not 0 <= work.source_tokens <= _LONGEST:
        raise UsageError("--source-tokens must not be negative")


def _resident(weights: WeightReport | None, precision: Precision) -> WeightReport | None:
    """Count float32 weights as what they are loaded as where the engine computes in 16 bit."""
    if weights is None or weights.half_precision_bytes is None:
        return weights
    if precision.compute.name in ("float32", "float64"):
        return weights
    notes = (*weights.notes, "float32 weights are loaded as 16 bit")
    return replace(weights, loaded_bytes=weights.half_precision_bytes, notes=notes)


def _precision(
    arch: Architecture, files: ModelFiles, engine: Engine, scheme: Scheme | None, work: Workload
) -> Precision:
    return choose_precision(
        arch,
        files,
        engine,
        wanted=work.kv_dtype,
        declared=scheme.kv_dtype if scheme else None,
        declared_source=(scheme.kv_source or "") if scheme else "",
    )


def _cache(
    arch: Architecture, engine: Engine, precision: Precision, work: Workload
) -> tuple[Architecture, KVReport | None]:
    """Size the cache; what cannot be sized makes the architecture unknown."""
    if arch.confidence is Confidence.UNKNOWN:
        return arch, None
    tokens = max(work.seq_lens, default=0) or work.context or arch.max_context or _ASSUMED_CONTEXT
    try:
        one = per_rank(arch, work, engine, precision, tokens=tokens)
        return arch, size_cache(arch, work, engine, precision, tokens=tokens, per_gpu=one)
    except UnsupportedError as error:
        doubts = (*arch.doubts, error.message, *((error.hint,) if error.hint else ()))
        return replace(arch, confidence=Confidence.UNKNOWN, doubts=doubts), None


def _needed(
    arch: Architecture, precision: Precision, work: Workload, kv: KVReport | None
) -> int | None:
    """Return what the model alone needs for one sequence, where an engine may keep more."""
    if kv is None or kv.engine == "none":
        return None
    return measure(arch, work, engine_named("none"), precision, tokens=kv.tokens)


def _fits(facts: Facts, engine: Engine) -> tuple[FitReport, ...]:
    arch, weights, kv, work = facts.architecture, facts.weights, facts.kv, facts.workload
    if kv is None or not work.deployment.gpus:
        return ()
    from hfkv.core.fit import fit  # noqa: PLC0415  a tenth of a second, for a GPU only

    @cache  # every way to fit asks again, and every GPU asks the same
    def on_rank(workload: Workload, *, tokens: int, tp: int, pp: int) -> int:
        precision = _precision(arch, facts.files, engine, facts.scheme, workload)
        return measure(arch, workload, engine, precision, tokens=tokens, tp=tp, pp=pp)

    return tuple(
        fit(arch, weights, kv, work, choice, measure=on_rank) for choice in work.deployment.gpus
    )
