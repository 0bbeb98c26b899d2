"""What the page's controls calculate with: stores, formats, splits and overheads as integers.

Everything is asked of the functions that made the report, so that the page cannot differ:
its script only multiplies entries by bytes and compares sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hfkv.core.budget import utilization
from hfkv.core.engines.engine import Engine
from hfkv.core.engines.mxfp4 import Mxfp4Kernel
from hfkv.core.engines.registry import engine_named
from hfkv.core.engines.stages import pipeline_stages
from hfkv.core.engines.titles import engine_title
from hfkv.core.fit import fit
from hfkv.core.gpus import parse_gpu, row_of, table
from hfkv.core.kv import KVReport, size_cache
from hfkv.core.quantization import read_scheme
from hfkv.core.report import Report, shared_out
from hfkv.core.workload import Deployment, GpuChoice, Workload
from hfkv.errors import UsageError
from hfkv.render.html.holdings import holdings, precision_of
from hfkv.render.html.spending import shares, spending
from hfkv.render.units import clean, dtype

__all__ = ["choice", "facts", "no_controls"]

# Numbers of GPUs that are offered, where they can share the model.
_COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)
_ANY = 2**60  # tokens

# What the script knows of a request; anything else that is asked leaves the page as it is.
_WORK = (
    "context",
    "sequences",
    "seq_lens",
    "kv_dtype",
    "engine",
    "source_tokens",
    "deployment",
)
_DEPLOYMENT = (
    "gpus",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "utilization",
    "overhead_bytes",
    "max_num_batched_tokens",
    "max_num_seqs",
    "enforce_eager",
)
_OF_WEIGHTS = ("weights are", "mxfp4 experts are")  # notes that no control changes
# Engines whose own account of a sequence arithmetic.js has.
_PORTED = frozenset({"sglang", "vllm"})


def no_controls(report: Report) -> str | None:
    """Return why the page cannot recalculate the report to the byte, None where it can."""
    work, engine = report.workload, engine_named(report.workload.engine)
    as_asked = "so it has none, and every figure is as asked"
    if engine.rank is not None and engine.name not in _PORTED:
        title = engine_title(engine.name)
        return f"The controls of this page do not know how {title} reserves, {as_asked}."
    if _format_depends_on_gpu(report, engine):
        title = engine_title(engine.name)
        return (
            f"{title} keeps this model's cache in another format on some GPUs, which the "
            f"controls of this page do not know, {as_asked}."
        )
    plain = Deployment(**{name: getattr(work.deployment, name) for name in _DEPLOYMENT})
    known = {name: getattr(work, name) for name in _WORK}
    if Workload(**{**known, "deployment": plain}) != work:
        return f"The controls of this page do not know all the options that were given, {as_asked}."
    return None


def _format_depends_on_gpu(report: Report, engine: Engine) -> bool:
    """Tell whether nobody names the cache's format, and the engine has more than one."""
    if report.workload.kv_dtype != "auto" or engine.default_cache is None:
        return False
    scheme = read_scheme(report.files)
    if scheme is not None and scheme.kv_dtype is not None:
        return False
    arch, deployment = report.architecture, report.workload.deployment
    on = (replace(deployment, gpus=parse_gpu(gpu.slug)) for gpu in table())
    return len({engine.default_cache(arch, one) for one in on}) > 1


def facts(report: Report, kv: KVReport) -> dict[str, Any]:
    """Return the facts of one model whose cache could be sized."""
    report = _shared_out(report)
    arch, work = report.architecture, report.workload
    kernels = _kernels(report)
    splits = list(_splits(report, kv, kernels))
    held = holdings(report, kv)
    source = arch.source_tokens if work.source_tokens is None else work.source_tokens
    return {
        "engine": work.engine,
        "engine_title": engine_title(work.engine),
        "period": engine_named(work.engine).period,
        "batch": work.deployment.max_num_batched_tokens,
        "source_tokens": source or 0,
        "max_context": arch.max_context,
        "layers": len(arch.layers),
        "weights": report.weights.loaded_bytes if report.weights else None,
        "simple": _simple(report, kv, held["rows"]),
        **held,
        "kernels": {slug: i for i, slugs in enumerate(kernels) for slug in slugs},
        "splits": splits,
        "shares": shares(arch, work, splits),
        "overhead": spending(arch, work),
        "reserves": _reserves(report, held, splits),
        "asked": _asked(report, kv),
        "command": _command(report),
    }


def _shared_out(report: Report) -> Report:
    """Return the report with weights in portions, which it has only where a GPU was asked for."""
    if report.weights is None or report.weights.portions:
        return report
    work, engine = report.workload, engine_named(report.workload.engine)
    precision = precision_of(report, engine, work.kv_dtype)
    weights = shared_out(
        report.weights,
        report.files,
        report.architecture,
        engine=engine,
        precision=precision,
        work=work,
    )
    return replace(report, weights=weights)


def choice(gpu: GpuChoice) -> dict[str, Any]:
    """Return one choice of GPU."""
    row = row_of(gpu.slug)
    return {
        "slug": clean(gpu.slug, 40),
        "name": clean(gpu.name, 80),
        "count": gpu.count,
        "memory": gpu.memory_bytes,
        "source": gpu.memory_source,
        "vendor": row.vendor if row else "other",
        "unified": row is not None and row.unified,
    }


def _asked(report: Report, kv: KVReport) -> dict[str, Any]:
    work = report.workload
    own = work.context is None and not work.seq_lens
    stated = work.deployment.utilization
    usual = utilization(replace(work.deployment, utilization=None), work.engine)
    return {
        "tokens": kv.tokens,
        "own": kv.tokens if own else report.architecture.max_context or kv.tokens,
        "is_own": own,
        "sequences": kv.sequences,
        "lengths": list(work.seq_lens),
        "format": "auto" if work.kv_dtype == "auto" else dtype(kv.dtype),
        "utilization": stated and list(stated.as_integer_ratio()),
        "usual_utilization": list(usual.as_integer_ratio()),
        "gpus": [choice(gpu) for gpu in work.deployment.gpus],
    }


def _reserves(
    report: Report, held: dict[str, Any], splits: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """Return what vLLM reserves under each format and number of GPUs; other engines: None."""
    if report.workload.engine != "vllm":
        return None
    from hfkv.render.html.reserves import reserves  # noqa: PLC0415  for one engine only

    counts = [split["count"] for split in splits]
    return reserves(report, [one["name"] for one in held["formats"]], counts)


def _simple(report: Report, kv: KVReport, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return what 2·L·Hkv·D·T·B·S needs: values a position, and how ranks would share them.

    It applies to contexts of at most `within` tokens, the smallest window; there the values
    are those that are kept, in any format.
    """
    arch = report.architecture
    if kv.simple_formula.bytes is None or arch.simple is None:
        return None
    layers, heads, dim = arch.simple
    windows = [row["window"] for row in rows if row.get("window") is not None]
    return {
        "values": 2 * layers * heads * dim,
        "within": min(windows, default=_ANY) if _applies_at_first(report) else 0,
        "heads": arch.num_key_value_heads,
        "layers": max(1, arch.num_hidden_layers or 1),
    }


def _applies_at_first(report: Report) -> bool:
    engine = engine_named(report.workload.engine)
    precision = precision_of(report, engine, report.workload.kv_dtype)
    first = size_cache(report.architecture, report.workload, engine, precision, tokens=1)
    return first.simple_formula.applies


def _kernels(report: Report) -> list[list[str]]:
    """Return the GPUs by how the engine lays mxfp4 experts out there; none without any."""
    if report.weights is None or not any(part.matrix for part in report.weights.portions):
        return []
    kernel = engine_named(report.workload.engine).mxfp4_kernel
    version = report.workload.deployment.engine_version
    found: dict[Mxfp4Kernel, list[str]] = {}
    for gpu in table():
        found.setdefault(kernel(parse_gpu(gpu.slug)[0], version), []).append(gpu.slug)
    return list(found.values())


def _splits(report: Report, kv: KVReport, kernels: list[list[str]]) -> Iterator[dict[str, Any]]:
    """Yield how each number of GPUs shares the model, or why it cannot."""
    asked = {gpu.count for gpu in report.workload.deployment.gpus}
    for count in sorted(asked | set(_COUNTS)):
        try:
            split = _split(report, kv, count)
            others = [_split(report, kv, count, slugs[0]) for slugs in kernels]
        except UsageError as error:
            yield {"count": count, "refused": error.message}
            continue
        laid_out = [{name: one[name] for name in ("weights", "notes")} for one in others]
        yield {"count": count, **split, "kernels": laid_out}


def _split(report: Report, kv: KVReport, count: int, slug: str | None = None) -> dict[str, Any]:
    """Return the ranks and the weights on each; raises UsageError where the count does not do."""
    arch = report.architecture
    roomy = replace(parse_gpu("10000gb")[0], count=count)
    roomy = roomy if slug is None else replace(roomy, slug=slug)
    work = replace(report.workload, deployment=replace(report.workload.deployment, gpus=(roomy,)))
    found = fit(arch, report.weights, kv, work, roomy, measure=_nothing)
    stages = pipeline_stages(len(arch.layers), found.pipeline_parallel_size)
    return {
        "tp": found.tensor_parallel_size,
        "pp": found.pipeline_parallel_size,
        "weights": found.weights_bytes_per_gpu,
        "notes": [note for note in found.notes if note.startswith(_OF_WEIGHTS)],
        "stages": [[stage.start, stage.stop] for stage in stages],
    }


def _nothing(workload: Workload, *, tokens: int, tp: int, pp: int) -> int:
    """Measure a sequence that keeps nothing."""
    del workload, tokens, tp, pp
    return 0


def _command(report: Report) -> list[str]:
    """Return the words of the command line that no control changes."""
    target, deployment = report.files.target, report.workload.deployment
    flags: dict[str, object] = {
        "--revision": target.revision if target.revision != "main" else None,
        "--engine": report.workload.engine if report.workload.engine != "none" else None,
        "--engine-version": deployment.engine_version,
        "--source-tokens": report.workload.source_tokens,
        "--overhead": deployment.overhead_bytes and f"{deployment.overhead_bytes / 2**20:g}mib",
        "--max-num-batched-tokens": deployment.max_num_batched_tokens,
        "--max-num-seqs": deployment.max_num_seqs,
        "--tp": deployment.tensor_parallel_size,
        "--pp": deployment.pipeline_parallel_size if deployment.pipeline_parallel_size > 1 else 0,
    }
    words = [word for flag, value in flags.items() if value for word in (flag, str(value))]
    words += ["--enforce-eager"] if deployment.enforce_eager else []
    return ["hfkv", "inspect", clean(target.id), *(clean(word) for word in words)]
