"""analyze(): the one place where the steps are composed."""

from __future__ import annotations

from dataclasses import dataclass

from hfkv.core.architecture import Architecture
from hfkv.core.files import ModelFiles
from hfkv.core.fit import FitReport
from hfkv.core.kv import KVReport
from hfkv.core.readings import Finding
from hfkv.core.weights import WeightReport
from hfkv.core.workload import Workload

__all__ = ["Report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything hfkv has to say about one model and one workload.

    `weights` is None when only a config was given; `kv` is None when the architecture is
    unknown.
    """

    files: ModelFiles
    workload: Workload
    architecture: Architecture
    weights: WeightReport | None
    kv: KVReport | None
    fit: tuple[FitReport, ...]
    findings: tuple[Finding, ...]
