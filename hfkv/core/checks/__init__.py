"""Is it safe to download and to start? One small function a check, each with a stable id.

A check passes, warns, fails or is skipped, and says why. What is outside the model (the disk,
the cache, the license) comes in as `Surroundings`.
"""

from __future__ import annotations

from hfkv.core.checks.case import Case, Check, Status, Surroundings, Verdicts, needed_files
from hfkv.core.checks.registry import CHECKS, known_ids, run_checks

__all__ = [
    "CHECKS",
    "Case",
    "Check",
    "Status",
    "Surroundings",
    "Verdicts",
    "known_ids",
    "needed_files",
    "run_checks",
]
