"""Say whether a Hugging Face model fits, at your context and concurrency, and why.

`inspect(target, …)` reads a model and answers; `analyze(files, workload)` is the same answer
for files that are already there, pure and deterministic. Names load when they are first used,
so that `import hfkv` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hfkv.api.ask import (
        CompareOptions,
        InspectOptions,
        WorkloadOptions,
        analyze,
        compare,
        inspect,
        workload,
    )
    from hfkv.api.reports import Comparison, Report, Row
    from hfkv.api.schemas import json_schema
    from hfkv.core.architecture import Architecture
    from hfkv.core.files import ModelFiles
    from hfkv.core.fit import FitReport
    from hfkv.core.kv import KVReport
    from hfkv.core.readings import Confidence, Finding
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
    "CompareOptions",
    "Comparison",
    "Confidence",
    "Deployment",
    "Finding",
    "FitReport",
    "GpuChoice",
    "HfkvError",
    "InspectOptions",
    "KVReport",
    "MalformedError",
    "ModelFiles",
    "Report",
    "Row",
    "UnreadableError",
    "UnsupportedError",
    "UsageError",
    "WeightReport",
    "Workload",
    "WorkloadOptions",
    "analyze",
    "compare",
    "inspect",
    "json_schema",
    "load",
    "load_many",
    "save_snapshot",
    "workload",
]

_HOMES = {
    "hfkv.api.ask": (
        "CompareOptions",
        "InspectOptions",
        "WorkloadOptions",
        "analyze",
        "compare",
        "inspect",
        "workload",
    ),
    "hfkv.api.reports": ("Comparison", "Report", "Row"),
    "hfkv.api.schemas": ("json_schema",),
    "hfkv.core.architecture": ("Architecture",),
    "hfkv.core.files": ("ModelFiles",),
    "hfkv.core.fit": ("FitReport",),
    "hfkv.core.kv": ("KVReport",),
    "hfkv.core.readings": ("Confidence", "Finding"),
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


if not TYPE_CHECKING:  # a type checker would take any misspelled name for an object

    def __getattr__(name: str) -> object:
        """Load a public name from the module it lives in."""
        if name not in _HOME:
            raise AttributeError(f"module 'hfkv' has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415  not needed to show --help

        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
