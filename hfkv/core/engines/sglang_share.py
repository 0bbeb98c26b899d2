"""How much of a GPU SGLang takes when it is not told: `mem_fraction_static`.

The share is what must remain for activations, graphs and communication, in MiB of what
`nvidia-smi` lists, turned around. Source: SGLang 0.5.23, `srt/arg_groups/memory_hook.py`.
"""

from __future__ import annotations

from fractions import Fraction

__all__ = ["PREFILL_SIZES", "mem_fraction_static", "prefill_size"]

_GIB = 1024  # MiB

# Up to so much memory: chunked prefill, largest decode batch captured alone and at tp >= 4.
_CLASSES = (
    (20 * _GIB, 2048, 8, 8),
    (35 * _GIB, 4096, 48, 160),
    (60 * _GIB, 4096, 32, 160),
    (160 * _GIB, 8192, 256, 512),
)
_LARGEST = (16384, 512, 512)
# Prefill sizes captured up to the largest one.
PREFILL_SIZES = {2048: 42, 4096: 50, 8192: 58, 16384: 74}
_LATENT_GRAPHS = 1536
_LEAST = 10_240  # reserved above 60 GiB


def _class_of(memory: int) -> tuple[int, int, int]:
    found = next((row[1:] for row in _CLASSES if memory < row[0]), _LARGEST)
    return found[0], found[1], found[2]


def prefill_size(memory: int) -> int:
    """Return the default of --chunked-prefill-size for a card of so many MiB."""
    return _class_of(memory)[0]


def mem_fraction_static(
    memory: int,
    *,
    tp: int,
    pp: int = 1,
    latent: bool = False,
    chunk: int | None = None,
    seqs: int | None = None,
    towers: bool = False,
) -> Fraction:
    """Return the default share for a card of `memory` MiB by nvidia-smi, to three decimals.

    `chunk` and `seqs` are --chunked-prefill-size and --max-running-requests where they were
    given; `latent` says that the attention is MLA, `towers` that there is more than text:
    such a model gets 95 % of the share (its encoder's size may make that 80 to 105 %). With
    pipeline stages no graphs of prefills are captured.
    """
    default, alone, wide = _class_of(memory)
    chunk = chunk or default
    batch = wide if tp >= 4 else alone
    prefill = _LATENT_GRAPHS if latent else 8 * _captured(chunk) if pp == 1 else 0
    graphs = 2 * min(batch, seqs or batch) + prefill
    reserved = 512 + Fraction(3 * max(chunk, 2048), 2) + Fraction(tp * pp * 1024, 8) + graphs
    if memory > 60 * _GIB:
        reserved = max(reserved, Fraction(_LEAST))
    # SGLang itself goes below zero on small cards and fails; nothing is what is left
    share = max(Fraction(0), round((memory - reserved) / memory, 3))
    return share * Fraction(95, 100) if towers else share


def _captured(chunk: int) -> int:
    return next((n for size, n in PREFILL_SIZES.items() if chunk <= size), PREFILL_SIZES[16384])
