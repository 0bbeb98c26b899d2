"""The README's table of how accurate hfkv is, from the fixtures and the report on logs.

`table()` is a generated block: `python tests/update_docs.py` writes it, and a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import test_oracle_transformers
import test_published_models
import test_real_configs
import test_vllm

__all__ = ["table"]

ROOT = Path(__file__).parent.parent
# Kept current by tests/test_overhead.py.
LOGS = ROOT / "benchmarks" / "logs_report.md"


def table() -> str:
    """Return one row for each thing that was measured by others."""
    rows = (f"| {' | '.join(row)} |" for row in (*_fixtures(), *_logs()))
    head = ("| compared with | cases | what agrees |", "|---|--:|---|")
    return "\n".join((*head, *rows))


def _fixtures() -> Iterator[tuple[str, str, str]]:
    found = test_oracle_transformers.tally()
    assert not found.wrong
    models = f"{found.shrunk} shrunk and {found.full} full-size models"
    reason = "[stated reason](fixtures/known_differences.toml)"
    yield (
        f"caches that transformers 5.24 allocated: {models}, configs in up to four spellings",
        f"{found.agree + found.known:,}",
        f"{found.agree:,} to the byte, layer by layer; {found.known} differ for a {reason}",
    )
    agree, known, wrong = test_vllm.tally()
    assert not wrong
    yield (
        "vLLM 0.32's own code: specs, pages, groups, need and start-up check",
        f"{agree + known:,}",
        f"{agree:,} to the byte" + (f"; {known} differ for a stated reason" if known else ""),
    )
    sized = sum(_sized(folder) for folder in test_real_configs.FOLDERS)
    unknown = len(test_real_configs.FOLDERS) - sized
    yield (
        "published config.json files, worked out without hfkv",
        f"{len(test_real_configs.FOLDERS):,}",
        f"{sized:,} to the byte; {unknown} rightly called unknown",
    )
    published = test_published_models.WEIGHTS
    assert all(_weighs(name) for name in published)
    yield (
        "published parameter counts and sizes of files",
        f"{len(published)}",
        "all to the parameter and the byte",
    )


def _sized(folder: Path) -> bool:
    truth = test_real_configs.read(folder / "truth.json")["bytes_at_32768"]
    kv = test_real_configs.report_of(folder).kv
    assert truth == (kv.bytes if kv else None)
    return truth is not None


def _weighs(name: str) -> bool:
    parameters, size = test_published_models.WEIGHTS[name]
    weights = test_published_models.report_of(name).weights
    assert weights is not None
    return weights.parameters == parameters and size in (None, weights.bytes)


def _logs() -> Iterator[tuple[str, str, str]]:
    text = LOGS.read_text(encoding="utf-8")
    good, cases = _found(r"(\d+) of (\d+) cases \([\d.]+%\) are within 0\.5 %", text)
    yield "start-up logs of six engines: bytes of a token", cases, f"{good} within 0.5 %"
    for title, said in (
        (r"vLLM 0\.19\.0 on H100 \(one sweep\)", "one sweep of vLLM 0.19 on H100"),
        (r"Everything else", "other GPUs, versions, engines"),
    ):
        cases, middle, most, covered = _found(
            rf"## Memory for the cache: {title}\n\n(\d+) cases; median error ([\d.]+)%, 90th "
            r"percentile ([\d.]+)%, .*?; the printed range holds the truth in (\d+)%",
            text,
        )
        how = f"{middle} % off in the median, {most} % at the 90th percentile"
        within = f"{covered} % within the printed range"
        yield f"the same logs: memory for the cache, {said}", cases, f"{how}; {within}"
    close, cases, middle = _found(
        r"(\d+) of (\d+)\nare within 1 %, the median is ([\d.]+)% off", text
    )
    yield "the same logs: weights on a GPU", cases, f"{close} within 1 %, median {middle} % off"


def _found(pattern: str, text: str) -> tuple[str, ...]:
    found = re.search(pattern, text, flags=re.DOTALL)
    if found is None:
        raise RuntimeError(f"{LOGS.name} has no {pattern}")
    return found.groups()
