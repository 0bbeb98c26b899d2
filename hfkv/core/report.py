"""analyze(): the one place where the steps are composed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import field, replace
from functools import cache
from typing import TYPE_CHECKING

from hfkv.core.architecture import Architecture, read_architecture
from hfkv.core.counts import counted
from hfkv.core.engines.engine import Engine, Rank
from hfkv.core.engines.registry import engine_named
from hfkv.core.evidence import Evidence, witness
from hfkv.core.files import ModelFiles
from hfkv.core.findings import Facts, find
from hfkv.core.jsontext import gc_paused
from hfkv.core.kv import KVReport, measure, size_cache
from hfkv.core.parallel import check_sizes
from hfkv.core.precision import Precision, choose_precision
from hfkv.core.quantization import Scheme, read_scheme
from hfkv.core.ranks import asked_rank, of_beams, rank_of, remembered
from hfkv.core.readings import Confidence, Finding
from hfkv.core.record import dataclass
from hfkv.core.weights import WeightReport, weigh
from hfkv.core.workload import Workload, resolved
from hfkv.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from hfkv.core.fit import FitReport
    from hfkv.core.what_if import WhatIf

__all__ = ["Report", "analyze", "shared_out"]

# Where neither the user nor the config says how long a sequence is.
_ASSUMED_CONTEXT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything hfkv has to say about one model and one workload.

    `weights` is None when only a config was given; `kv` is None when the architecture is
    unknown; `evidence` is what the tensors said of the architecture. `what_if` is what the
    weights would take in the format that the workload asks about; `fit` then counts on it.
    """

    files: ModelFiles
    workload: Workload
    architecture: Architecture
    evidence: Evidence = field(default_factory=Evidence)
    weights: WeightReport | None
    kv: KVReport | None
    fit: tuple[FitReport, ...]
    findings: tuple[Finding, ...]
    what_if: WhatIf | None = None

    @property
    def resident(self) -> WeightReport | None:
        """Return the weights that are counted on: as stored, or as another format would be."""
        if self.weights is None or self.what_if is None:
            return self.weights
        return self.what_if.instead_of(self.weights)


@gc_paused()
def analyze(files: ModelFiles, workload: Workload | None = None) -> Report:
    """Answer the question for one model: deterministic, pure, raises only HfkvError.

    Raises MalformedError for files that contradict themselves, UsageError for a workload
    that makes no sense. An architecture that cannot be sized gives a report without `kv`.
    """
    work = resolved(workload or Workload())
    engine = engine_named(work.engine)
    work = replace(work, engine=engine.name)
    arch, evidence = witness(read_architecture(files), files)
    scheme = read_scheme(files)
    precision = _precision(arch, files, engine, scheme, work)
    weights = _resident(
        weigh(files), precision, drafting=work.deployment.num_speculative_tokens > 0
    )
    if weights is not None and work.deployment.gpus:
        weights = shared_out(weights, files, arch, engine=engine, precision=precision, work=work)
    check_sizes(arch, work.deployment)
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
        what_if=_what_if(weights, files, work, work.weights_dtype),
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
        what_if=facts.what_if,
    )


def _what_if(
    weights: WeightReport | None, files: ModelFiles, work: Workload, name: str | None
) -> WhatIf | None:
    """Estimate the weights in another format; next-token layers stay as stored."""
    if weights is None or name is None:
        return None
    from hfkv.core.what_if import what_if  # noqa: PLC0415  few ask what if

    found, drafts = what_if(weights, files, name), weights.by_role.get("mtp")
    if found is None or drafts is None or not work.deployment.num_speculative_tokens:
        return found
    return replace(
        found,
        bytes=found.bytes + drafts.bytes,
        unquantized_bytes=found.unquantized_bytes + drafts.bytes,
        by_role={**found.by_role, "mtp": drafts.bytes},
    )


def _resident(
    weights: WeightReport | None, precision: Precision, *, drafting: bool
) -> WeightReport | None:
    """Count what is loaded: next-token layers only for drafting, float32 as 16 bit.

    The latter where the engine computes in 16 bit.
    """
    if weights is None:
        return None
    stored, half, notes = weights.loaded_bytes, weights.half_precision_bytes, weights.notes
    drafts = weights.by_role.get("mtp")
    loaded = stored + (drafts.bytes if drafts and drafting else 0)
    if half is not None and precision.compute.name not in ("float32", "float64"):
        loaded = loaded * half // stored
        notes = (*notes, "float32 weights are loaded as 16 bit")
    return replace(weights, loaded_bytes=loaded, notes=notes)


def shared_out(
    weights: WeightReport,
    files: ModelFiles,
    arch: Architecture,
    *,
    engine: Engine,
    precision: Precision,
    work: Workload,
) -> WeightReport:
    """Return the weights in portions that GPUs share out."""
    from hfkv.core.loading import with_portions  # noqa: PLC0415  for a GPU only

    return with_portions(
        weights,
        files,
        arch,
        drafting=work.deployment.num_speculative_tokens > 0,
        positions_in=engine.positions_in and engine.positions_in(arch, precision.compute),
    )


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
        deployment=work.deployment,
    )


def _cache(
    arch: Architecture, engine: Engine, precision: Precision, work: Workload
) -> tuple[Architecture, KVReport | None]:
    """Size the cache; what cannot be sized makes the architecture unknown."""
    if arch.confidence is Confidence.UNKNOWN:
        return arch, None
    tokens = _length(arch, engine, work)
    try:
        rank = asked_rank(arch, work, engine, precision)
        return arch, size_cache(arch, work, engine, precision, tokens=tokens, rank=rank)
    except UnsupportedError as error:
        doubts = (*arch.doubts, error.message, *((error.hint,) if error.hint else ()))
        return replace(arch, confidence=Confidence.UNKNOWN, doubts=doubts), None


def _length(arch: Architecture, engine: Engine, work: Workload) -> int:
    """Return the length of the (longest) sequence: asked for, the engine's own, the model's."""
    own = engine.default_context(arch, work.deployment) if engine.default_context else None
    asked = max(work.seq_lens, default=0) or work.context
    tokens = asked or own or arch.max_context or _ASSUMED_CONTEXT
    shortest = min(work.seq_lens, default=tokens)
    if work.shared_prefix > shortest:
        raise UsageError(
            f"a prefix of {counted(work.shared_prefix, 'token')} is not shared by a sequence of "
            f"{shortest:,}",
            hint="--shared-prefix is part of every sequence",
            code="shared-prefix",
        )
    return tokens


def _needed(
    arch: Architecture, precision: Precision, work: Workload, kv: KVReport | None
) -> int | None:
    """Return what the model alone needs for one sequence, where an engine may keep more."""
    if kv is None or kv.engine == "none":
        return None
    return measure(arch, work, engine_named("none"), precision, tokens=kv.tokens)


def _fits(facts: Facts, engine: Engine) -> tuple[FitReport, ...]:
    arch, weights, kv, work = facts.architecture, facts.weights, facts.kv, facts.workload
    if weights is not None and not weights.complete:
        weights = None  # a part of the weights says nothing about the whole
    if kv is None or not work.deployment.gpus:
        return ()
    if weights is not None and facts.what_if is not None:
        weights = facts.what_if.instead_of(weights)
    from hfkv.core.commands import commands_for  # noqa: PLC0415  a tenth of a second ...
    from hfkv.core.fit import fit, shares_of  # noqa: PLC0415  ... for a GPU only
    from hfkv.core.speed import speed_ceiling  # noqa: PLC0415

    ranks, requantize = _ranks(facts, engine), _requantize(facts)
    shares = shares_of(weights, arch, work) if weights else None
    lengths = Counter(work.seq_lens) if work.seq_lens else {kv.tokens: work.sequences}

    def finished(one: FitReport) -> FitReport:
        if one.fits is False:
            return one
        speed = speed_ceiling(
            arch,
            weights,
            work,
            facts.precision,
            gpu=one.gpu,
            ranks=(one.tensor_parallel_size, one.pipeline_parallel_size),
            lengths=lengths,
        )
        return replace(one, speed=speed, commands=commands_for(facts.files, arch, work, kv, one))

    return tuple(
        finished(
            fit(arch, weights, kv, work, choice, ranks=ranks, requantize=requantize, shares=shares)
        )
        for choice in work.deployment.gpus
    )


def _ranks(facts: Facts, engine: Engine) -> Callable[[Workload], Rank]:
    """Return ranks by workload; every way to fit asks again, and every GPU asks the same."""
    known: dict[Hashable, Rank] = {}

    def rank(workload: Workload) -> Rank:
        deployment, own = workload.deployment, engine.default_cache
        format_there = own and own(facts.architecture, deployment)
        key = (engine.settings(deployment), workload.kv_dtype, format_there)
        if key not in known:
            precision = _precision(facts.architecture, facts.files, engine, facts.scheme, workload)
            one = rank_of(facts.architecture, workload, engine, precision)
            known[key] = remembered(of_beams(one, workload))
        return known[key]

    return rank


def _requantize(facts: Facts) -> Callable[[str], WeightReport | None]:
    """Return what the weights would be in another format, None where nothing says."""

    @cache
    def estimate(name: str) -> WeightReport | None:
        found = _what_if(facts.weights, facts.files, facts.workload, name)
        return found.instead_of(facts.weights) if facts.weights and found else None

    return estimate
