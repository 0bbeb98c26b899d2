"""Say whether a Hugging Face model fits, at your context and concurrency, and why.

`inspect(target, …)` reads a model and answers; `analyze(files, workload)` is the same answer
for files that are already there, pure and deterministic. Names load when they are first used,
so that `import hfkv` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hfkv.core.architecture import Architecture
    from hfkv.core.comparison import Comparison
    from hfkv.core.files import ModelFiles
    from hfkv.core.fit import FitReport
    from hfkv.core.kv import KVReport
    from hfkv.core.readings import Confidence, Finding
    from hfkv.core.report import Report, analyze
    from hfkv.core.weights import WeightReport
    from hfkv.core.workload import Deployment, GpuChoice, Workload
    from hfkv.errors import (
        HfkvError,
        MalformedError,
        UnreadableError,
        UnsupportedError,
        UsageError,
    )
    from hfkv.sources import load
    from hfkv.sources.several import load_many
    from hfkv.sources.snapshot import save_snapshot

__version__ = "0.1.0"

__all__ = [
    "Architecture",
    "Comparison",
    "Confidence",
    "Deployment",
    "Finding",
    "FitReport",
    "GpuChoice",
    "HfkvError",
    "KVReport",
    "MalformedError",
    "ModelFiles",
    "Report",
    "UnreadableError",
    "UnsupportedError",
    "UsageError",
    "WeightReport",
    "Workload",
    "analyze",
    "compare",
    "inspect",
    "load",
    "load_many",
    "save_snapshot",
]

_HOMES = {
    "hfkv.core.architecture": ("Architecture",),
    "hfkv.core.comparison": ("Comparison",),
    "hfkv.core.files": ("ModelFiles",),
    "hfkv.core.fit": ("FitReport",),
    "hfkv.core.kv": ("KVReport",),
    "hfkv.core.readings": ("Confidence", "Finding"),
    "hfkv.core.report": ("Report", "analyze"),
    "hfkv.core.weights": ("WeightReport",),
    "hfkv.core.workload": ("Deployment", "GpuChoice", "Workload"),
    "hfkv.errors": (
        "HfkvError",
        "MalformedError",
        "UnreadableError",
        "UnsupportedError",
        "UsageError",
    ),
    "hfkv.sources": ("load",),
    "hfkv.sources.several": ("load_many",),
    "hfkv.sources.snapshot": ("save_snapshot",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def inspect(
    target: str,
    *,
    gpu: str | Sequence[str] = (),
    context: int | None = None,
    sequences: int = 1,
    seq_lens: Sequence[int] = (),
    kv_dtype: str = "auto",
    weights_dtype: str | None = None,
    engine: str = "none",
    revision: str | None = None,
    token: str | None = None,
    offline: bool = False,
    timeout: float = 60.0,
    config: str | None = None,
) -> Report:
    """Read a model and say what it takes and whether it fits, as `hfkv inspect` does.

    `target` and `gpu` are written as on the command line. Raises HfkvError. What is not a
    keyword here (parallel sizes, utilization, overhead …) is in the `Deployment` of the
    `Workload` that `analyze` takes.
    """
    from hfkv.core.report import analyze  # noqa: PLC0415  nothing is loaded before it is used
    from hfkv.sources import load  # noqa: PLC0415

    work = _workload(
        gpu=gpu,
        context=context,
        sequences=sequences,
        seq_lens=seq_lens,
        kv_dtype=kv_dtype,
        weights_dtype=weights_dtype,
        engine=engine,
    )
    files = load(
        target,
        revision=revision,
        token=token,
        offline=offline,
        timeout=timeout,
        config_path=config,
    )
    return analyze(files, work)


def compare(
    targets: Sequence[str],
    *,
    gpu: str | Sequence[str] = (),
    context: int | None = None,
    sequences: int = 1,
    seq_lens: Sequence[int] = (),
    kv_dtype: str = "auto",
    weights_dtype: str | None = None,
    engine: str = "none",
    sort: str | None = None,
    token: str | None = None,
    offline: bool = False,
    timeout: float = 60.0,
) -> Comparison:
    """Read several models and answer for each, as `hfkv compare` does.

    A model that cannot be read has an `error` in its row where others have a `report`.
    """
    from functools import partial  # noqa: PLC0415  nothing is loaded before it is used

    from hfkv.core.comparison import compare_models  # noqa: PLC0415
    from hfkv.sources import load  # noqa: PLC0415
    from hfkv.sources.several import load_several  # noqa: PLC0415
    from hfkv.sources.shared import Shared  # noqa: PLC0415

    work = _workload(
        gpu=gpu,
        context=context,
        sequences=sequences,
        seq_lens=seq_lens,
        kv_dtype=kv_dtype,
        weights_dtype=weights_dtype,
        engine=engine,
    )
    with Shared() as shared:
        one = partial(load, token=token, offline=offline, timeout=timeout, shared=shared)
        outcomes = load_several(targets, one)
    return compare_models(targets, outcomes, work, sort=sort)


def _workload(
    *,
    gpu: str | Sequence[str],
    context: int | None,
    sequences: int,
    seq_lens: Sequence[int],
    kv_dtype: str,
    weights_dtype: str | None,
    engine: str,
) -> Workload:
    from hfkv.core.gpus import parse_gpu  # noqa: PLC0415
    from hfkv.core.workload import Deployment, Workload  # noqa: PLC0415

    wanted = (gpu,) if isinstance(gpu, str) else tuple(gpu)
    return Workload(
        context=context,
        sequences=sequences,
        seq_lens=tuple(seq_lens),
        kv_dtype=kv_dtype,
        weights_dtype=weights_dtype,
        engine=engine,
        deployment=Deployment(gpus=tuple(one for text in wanted for one in parse_gpu(text))),
    )


def __getattr__(name: str) -> object:
    """Load a public name from the module it lives in."""
    if name not in _HOME:
        raise AttributeError(f"module 'hfkv' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415  not needed to show --help

    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
