"""Checks of what is in the repository: whether it is whole, safe and permitted."""

from __future__ import annotations

import re

from hfkv.core.checks.case import Outcome, Read, Status, of_finding
from hfkv.core.counts import counted
from hfkv.core.files import ModelFiles
from hfkv.core.readings import Confidence, told_apart

__all__ = [
    "agreement",
    "complete",
    "license_stated",
    "pinned",
    "reachable",
    "remote_code",
    "safetensors",
    "tokenizer",
]

_COMMIT = re.compile(r"[0-9a-f]{40}")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_TOKENIZER = re.compile(
    r"tokenizer\.json|tokenizer\.model(\.v[0-9]+)?|tekken\.json|vocab\.(json|txt|bpe)|spiece\.model"
    r"|sentencepiece.*\.model|.*\.(tiktoken|spm)"
)
_LICENSE_FILE = re.compile(r"(un)?licen[cs]e.*|copying.*", re.IGNORECASE)


def reachable(case: Read) -> Outcome:
    """Check that it can be read with this token, and is not behind a gate."""
    gate = case.finding("gated")
    if gate is not None:
        return of_finding(gate, Status.FAIL)
    odd = case.finding("token-rejected", "renamed", "offline-partial")
    if odd is not None:
        return of_finding(odd, Status.WARN)
    return Outcome(Status.PASS, f"read from {_place(case.files)}")


def _place(files: ModelFiles) -> str:
    target = files.target
    if target.kind == "hub":
        return f"the Hub at {target.revision or 'main'}"
    return {"folder": "a folder", "file": "a file"}.get(target.kind, "a snapshot")


def pinned(case: Read) -> Outcome:
    """Check that one commit is named, so that it is the same model tomorrow."""
    target = case.files.target
    if case.on_disk:
        return Outcome(Status.SKIPPED, "what is on this machine has no revision")
    if target.revision and _COMMIT.fullmatch(target.revision):
        return Outcome(Status.PASS, f"pinned to commit {target.revision}")
    named = target.revision or "main"
    if target.sha is None:
        return Outcome(Status.WARN, f"{named} can move, and its commit is not known")
    today = f"{named} can move; it is {target.sha} now"
    return Outcome(Status.WARN, today, f"pin it: --revision {target.sha}")


def complete(case: Read) -> Outcome:
    """Check that index, files and headers of the weights belong together."""
    broken = case.finding("missing-shard", "index-mismatch", "no-weights", "ambiguous-weights")
    if broken is not None:
        return of_finding(broken, Status.FAIL)
    odd = case.finding(
        "unlisted-shard", "index-total-mismatch", "duplicate-tensor", "part-of-model"
    )
    if odd is not None:
        return of_finding(odd, Status.WARN)
    headers = case.files.headers
    if not headers:
        return Outcome(Status.SKIPPED, "no headers of weights were read")
    tensors = sum(header.tensors for header in headers)
    index = ", as the index names them" if case.files.index is not None else ""
    return Outcome(
        Status.PASS, f"{counted(tensors, 'tensor')} in {counted(len(headers), 'file')}{index}"
    )


def safetensors(case: Read) -> Outcome:
    """Check that the weights are safetensors: a pickle runs code when it is loaded."""
    only = case.finding("pickle-weights", "gguf", "adapter", "diffusers")
    if only is not None:
        return of_finding(only, Status.FAIL if only.code == "pickle-weights" else Status.SKIPPED)
    if not case.files.weight_files:
        return Outcome(Status.SKIPPED, "no weights were looked at")
    pickles = [file.path for file in case.files.files if file.path.endswith(_PICKLES)]
    beside = (
        f"; {counted(len(pickles), 'pickle')} beside them need not be loaded" if pickles else ""
    )
    return Outcome(Status.PASS, f"the weights are safetensors{beside}")


def remote_code(case: Read) -> Outcome:
    """Check that no code from the repository is needed."""
    needed = case.finding("remote-code")
    if needed is not None:
        return of_finding(needed, Status.FAIL)
    named = isinstance((case.files.config or {}).get("auto_map"), dict)
    return Outcome(
        Status.PASS,
        "code of its own is there and not needed" if named else "no code of its own",
    )


def license_stated(case: Read) -> Outcome:
    """Check that a license is stated, and is one of those that are allowed."""
    stated, allowed = case.around.license, case.allowed
    texts = [f.path for f in case.files.files if _LICENSE_FILE.fullmatch(f.path)]
    if allowed:
        if stated is not None and stated.lower() in {name.lower() for name in allowed}:
            return Outcome(Status.PASS, f"{stated} is allowed")
        what = f"{stated} is not allowed" if stated else "no license is named"
        return Outcome(Status.FAIL, what, f"allowed: {', '.join(allowed)}")
    if stated == "other":
        return Outcome(Status.WARN, "a license of its own", "read it before you use the model")
    if stated is not None:
        return Outcome(Status.PASS, stated)
    if texts:
        return Outcome(Status.PASS, f"its text is in {texts[0]}")
    return Outcome(Status.WARN, "no license is stated", "without one, nothing is permitted")


def tokenizer(case: Read) -> Outcome:
    """Check that tokenizer and chat template come with the model."""
    if case.files.target.kind == "file":
        return Outcome(Status.SKIPPED, "only one file was read")
    found = [file.path for file in case.files.files if _TOKENIZER.fullmatch(file.path)]
    if not found:
        hint = "take the one of the model that it was made from"
        return Outcome(Status.FAIL, "there is no tokenizer", hint)
    if case.around.chat_template is False:
        hint = "a base model has none; an engine needs one to chat"
        return Outcome(Status.WARN, f"{found[0]}, and no chat template", hint)
    template = ", with a chat template" if case.around.chat_template else ""
    return Outcome(Status.PASS, f"{found[0]}{template}")


def agreement(case: Read) -> Outcome:
    """Check that the tensors show what the config says."""
    arch = case.report.architecture
    other = case.finding("quantization-mismatch")
    reasons, advice = told_apart(arch.doubts, arch.confidence)
    doubts = "; ".join(reasons)
    if arch.confidence is Confidence.CONFIRMED:
        same = Outcome(Status.PASS, "config and tensors agree about every layer")
        return same if other is None else of_finding(other, Status.WARN)
    if arch.confidence is Confidence.DECLARED:
        return Outcome(Status.SKIPPED, "no tensors were compared with the config")
    if arch.confidence is Confidence.INFERRED:
        return Outcome(Status.WARN, doubts or "the model type is not known")
    return Outcome(Status.FAIL, doubts or "the architecture could not be read", advice)
