"""Tensors as a second witness: they confirm a config, contradict it, or stand in for it."""

from __future__ import annotations

from dataclasses import replace

from hfkv.core.architecture import Architecture
from hfkv.core.evidence.compare import Evidence, compare
from hfkv.core.files import ModelFiles
from hfkv.core.readings import Confidence

__all__ = ["Evidence", "compare", "witness"]


def witness(arch: Architecture, files: ModelFiles) -> tuple[Architecture, Evidence]:
    """Return the architecture with the confidence that the tensors give it, and why.

    No value is overwritten: a disagreement makes it doubtful, complete agreement confirms
    it. Only an architecture that could not be read at all gets its layers from the tensors.
    """
    if arch.confidence is Confidence.UNKNOWN:
        from hfkv.core.evidence.rebuild import architecture_from_tensors  # noqa: PLC0415  rare

        return architecture_from_tensors(arch, files), Evidence()
    evidence = compare(arch, files)
    if evidence.disagreements:
        doubts = (*arch.doubts, *evidence.disagreements)
        return replace(arch, confidence=Confidence.DOUBTFUL, doubts=doubts), evidence
    if evidence.complete and arch.confidence is not Confidence.DOUBTFUL:
        return replace(arch, confidence=Confidence.CONFIRMED), evidence
    return arch, evidence
