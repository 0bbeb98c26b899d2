"""Checks of what it takes to run: room on the disk and the GPU, an engine, a context."""

from __future__ import annotations

from hfkv.core.checks.case import Outcome, Read, Status, needed_files, of_finding
from hfkv.core.config import Config
from hfkv.core.counts import counted
from hfkv.core.descend import decoder_part
from hfkv.core.engines.titles import engine_title
from hfkv.core.files import ModelFiles
from hfkv.core.quantization import loadable as loads

__all__ = ["cached", "context", "disk", "fits", "loadable"]


def _to_fetch(case: Read) -> int | None:
    """Return the bytes that are not in the cache yet, None where sizes are not known."""
    sizes = [size for _path, size, _sha in needed_files(case.files)]
    if not sizes or any(size is None for size in sizes):
        return None
    return max(0, sum(size or 0 for size in sizes) - (case.around.cached_bytes or 0))


def disk(case: Read) -> Outcome:
    """Check that there is room for the download where the cache is."""
    if case.on_disk:
        return Outcome(Status.SKIPPED, "it is on this machine")
    fetch, free = _to_fetch(case), case.around.free_bytes
    if fetch is None or free is None:
        return Outcome(Status.SKIPPED, "the size of the download is not known")
    where = case.around.cache_path
    sizes = (("to fetch", fetch), ("free", free))
    if fetch > free:
        hint = "make room there, or point HF_HOME at another disk"
        return Outcome(Status.FAIL, f"no room at {where}", hint, sizes)
    return Outcome(Status.PASS, f"room at {where}", None, sizes)


def cached(case: Read) -> Outcome:
    """Tell how much of the download is in the cache already."""
    if case.on_disk:
        return Outcome(Status.SKIPPED, "it is on this machine")
    cached, fetch = case.around.cached_bytes, _to_fetch(case)
    if cached is None or fetch is None:
        return Outcome(Status.SKIPPED, "the size of the download is not known")
    if not cached:
        return Outcome(Status.PASS, "nothing is in the cache", None, (("to fetch", fetch),))
    sizes = (("in the cache", cached), ("to fetch", fetch))
    return Outcome(Status.PASS, "partly cached" if fetch else "wholly cached", None, sizes)


def loadable(case: Read) -> Outcome:
    """Check that the engine loads the format that the weights are stored in."""
    engine, weights = case.report.workload.engine, case.report.weights
    if engine == "none":
        return Outcome(Status.SKIPPED, "no engine was named", "add --engine vllm")
    if weights is None:
        return Outcome(Status.SKIPPED, "the weights are not known")
    scheme = weights.quantization
    form = scheme.format if scheme is not None else "none"
    what = "unquantized weights" if form == "none" else f"{form} weights"
    answer = loads(form, engine)
    if answer is None:
        return Outcome(
            Status.SKIPPED, f"which formats {engine_title(engine)} loads is not known to hfkv"
        )
    if answer:
        return Outcome(Status.PASS, f"{engine_title(engine)} loads {what}")
    hint = "choose another --engine, or another repository of this model"
    return Outcome(Status.FAIL, f"{engine_title(engine)} does not load {what}", hint)


def fits(case: Read) -> Outcome:
    """Check that weights, cache and overhead go into one of the given GPUs."""
    report = case.report
    if report.kv is None:
        known = case.finding("weights-too-large") or case.finding("fit-unknown")
        return Outcome(Status.FAIL, known.message if known else "the cache cannot be sized")
    if not report.fit:
        return Outcome(Status.SKIPPED, "no GPU was named", "add --gpu a100-80, or auto")
    order = {"fits": 0, "fits tightly": 1, "unknown": 2, "does not fit": 3}
    best = min(report.fit, key=lambda fit: (fit.fits is False, order.get(fit.verdict, 2)))
    where = best.name if best.count == 1 else f"{best.count} × {best.name}"
    work = f"{counted(report.kv.tokens, 'token')} × {counted(report.kv.sequences, 'sequence')}"
    if best.fits is False:
        way = next((way.change for way in best.ways_to_fit if way.fits), None)
        hint = f"this would fit: {way}" if way else None
        short = (("short", best.short_by_bytes),)
        return Outcome(Status.FAIL, f"{where} does not hold {work}", hint, short)
    if best.fits is None:
        return Outcome(Status.WARN, f"{where} holds the cache; the weights are not known")
    free = best.kv_pool_bytes_per_gpu - best.kv_bytes_per_gpu
    if best.verdict == "fits tightly":
        hint = "the overhead is an estimate: measure it, and give it as --overhead"
        return Outcome(Status.WARN, f"{where} holds {work} tightly", hint, (("free", free),))
    return Outcome(Status.PASS, f"{where} holds {work}", None, (("free", free),))


def context(case: Read) -> Outcome:
    """Check that the context is one that the model was made for."""
    arch, work = case.report.architecture, case.report.workload
    longest = arch.max_context
    asked = work.context or max(work.seq_lens, default=None)
    beyond = case.finding("context-above-maximum")
    if beyond is not None:
        return of_finding(beyond, Status.FAIL)
    if longest is None:
        return Outcome(Status.WARN, "the config states no maximum context")
    stretched = _rope_scaling(case.files)
    note = f"; {stretched}" if stretched else ""
    if asked is None:
        return Outcome(Status.PASS, f"its maximum of {counted(longest, 'token')}{note}")
    return Outcome(Status.PASS, f"{asked:,} of at most {counted(longest, 'token')}{note}")


def _rope_scaling(files: ModelFiles) -> str | None:
    """Return how positions beyond the trained ones are reached, where the config says so."""
    if files.config is None:
        return None
    values = decoder_part(Config(files.config)).values
    scaling = values.get("rope_scaling") or values.get("rope_parameters")
    if not isinstance(scaling, dict):
        return None
    kind = scaling.get("rope_type") or scaling.get("type")
    trained = scaling.get("original_max_position_embeddings")
    if not isinstance(kind, str) or kind in ("default", "mrope"):
        return None
    of = f" from {trained:,}" if isinstance(trained, int) else ""
    return f"stretched{of} by {kind:.20} rope scaling"
