"""Settings drawn at random, what the command line says under each, and how it is asked."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from hfkv.core.fit import FitReport
from hfkv.core.gpus import parse_gpu, table
from hfkv.core.report import Report, analyze
from hfkv.core.workload import Deployment, Workload
from hfkv.errors import HfkvError
from hfkv.render.html.facts import choice
from hfkv.render.phrases import verdict

__all__ = ["Setting", "answers", "drawn"]

_PLAIN = Deployment()
_SLUGS = [gpu.slug for gpu in table()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One position of all controls."""

    tokens: int
    sequences: int
    lengths: tuple[int, ...]
    format: str
    gpu: str
    count: int
    utilization: int | None  # percent
    deployment: Deployment = _PLAIN  # what no control changes

    def workload(self, engine: str) -> Workload:
        """Return the same request for `analyze`."""
        share = None if self.utilization is None else Fraction(self.utilization, 100)
        return Workload(
            context=None if self.lengths else self.tokens,
            sequences=1 if self.lengths else self.sequences,
            seq_lens=self.lengths,
            kv_dtype=self.format,
            engine=engine,
            deployment=replace(
                self.deployment, gpus=parse_gpu(f"{self.gpu}:{self.count}"), utilization=share
            ),
        )

    def for_script(self) -> dict[str, Any]:
        """Return the same request for the page's script."""
        gpu = replace(parse_gpu(self.gpu)[0], count=self.count)
        return {
            "tokens": max(self.lengths, default=self.tokens),
            "sequences": len(self.lengths) or self.sequences,
            "lengths": list(self.lengths),
            "format": self.format,
            "utilization": self.utilization and [self.utilization, 100],
            "gpus": [choice(gpu)],
        }


def drawn(
    seed: int,
    number: int,
    formats: list[str],
    *,
    counts: tuple[int, ...] = (1, 1, 2, 4, 8),
    lengths: bool = True,
) -> Iterator[Setting]:
    """Yield settings: round and odd contexts, few and many sequences, any GPU."""
    rng = random.Random(seed)  # noqa: S311  no secret is drawn
    for _ in range(number):
        real = tuple(rng.randint(1, 20_000) for _ in range(3)) if rng.random() < 0.2 else ()
        yield Setting(
            tokens=rng.choice([rng.randint(1, 200_000), 2 ** rng.randint(4, 17)]),
            sequences=rng.choice([1, rng.randint(1, 40), rng.randint(1, 2000)]),
            lengths=real if lengths else (),
            format=rng.choice(formats),
            gpu=rng.choice(_SLUGS),
            count=rng.choice(counts),
            utilization=rng.choice([None, rng.randint(1, 100)]),
        )


def answers(files: Any, work: Workload) -> dict[str, Any]:
    """Return every figure that the report has under one setting, or why it has none."""
    try:
        report = analyze(files, work)
    except HfkvError as error:
        return {"refused": error.message}
    return {**_cache(report), **_fit(report.fit[0]), "verdict": _verdict(report)}


def _verdict(report: Report) -> list[str]:
    feeling, sentence = verdict(report)
    return [feeling.name.lower(), sentence]


def _cache(report: Report) -> dict[str, Any]:
    kv = report.kv
    assert kv is not None
    return {
        "bytes": kv.bytes,
        "perSequence": kv.bytes_per_sequence,
        "perToken": kv.bytes_per_token,
        "fixed": kv.fixed_bytes_per_sequence,
        "simple": kv.simple_formula.bytes,
        "parts": [
            [p.name, p.layers, p.slots, p.bytes_per_slot, p.bytes, p.dtype] for p in kv.components
        ],
    }


def _fit(fit: FitReport) -> dict[str, Any]:
    return {
        "tp": fit.tensor_parallel_size,
        "pp": fit.pipeline_parallel_size,
        "budget": fit.budget_bytes,
        "overhead": [[part.name, part.bytes] for part in fit.overhead_parts],
        "range": [fit.overhead_low_bytes, fit.overhead_high_bytes],
        "weights": fit.weights_bytes_per_gpu,
        "pool": fit.kv_pool_bytes_per_gpu,
        "each": fit.kv_bytes_per_sequence_per_gpu,
        "needed": fit.kv_bytes_per_gpu,
        "fits": fit.fits,
        "short": fit.short_by_bytes,
        "sequences": fit.max_sequences,
        "longest": fit.max_context,
        "tokens": fit.max_tokens,
        "simpleSequences": fit.simple_formula_max_sequences,
        "notes": list(fit.notes),
    }
