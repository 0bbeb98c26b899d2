"""The calculator's answer as a document, as Markdown and as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hfkv import __version__
from hfkv.core.account import Account
from hfkv.core.calculator import Step, Structure
from hfkv.core.counts import counted
from hfkv.core.kv import KVReport
from hfkv.core.weights import WeightReport
from hfkv.render.json import fit_document, kv_cache_document
from hfkv.render.phrases import gpu_phrase, load_phrase
from hfkv.render.rows import escape, markdown_table, write_csv
from hfkv.render.units import clean, dtype, integer, percent, ratio, size

__all__ = [
    "cache_of",
    "factor",
    "headline",
    "in_use_phrase",
    "kv_csv",
    "kv_document",
    "kv_markdown",
    "most",
    "structure_phrase",
]


def cache_of(answer: Account) -> KVReport:
    """Return the cache of the answer; a structure in numbers always has one."""
    assert answer.report.kv is not None
    return answer.report.kv


def kv_document(answer: Account) -> dict[str, Any]:
    """Return the `hfkv.kv/1` document."""
    cache = cache_of(answer)
    return {
        "schema": "hfkv.kv/1",
        "hfkv_version": __version__,
        "structure": _structure(answer.structure),
        "kv_cache": kv_cache_document(cache),
        "in_use": _in_use(answer, cache),
        "weights": _weights(answer.report.weights),
        "grid": [
            {"tokens": cell.tokens, "sequences": cell.sequences, "bytes": cell.bytes}
            for cell in answer.grid
        ],
        "ladder": [_step(answer, step) for step in answer.ladder],
        "fit": [
            {"tokens": held.tokens, "sequences": cache.sequences, **fit_document(held.fit)}
            for held in answer.capacity
        ],
    }


def _structure(structure: Structure) -> dict[str, Any]:
    window = structure.window
    return {
        "num_hidden_layers": structure.layers,
        "hidden_size": structure.hidden,
        "num_attention_heads": structure.heads,
        "num_key_value_heads": None if structure.only_latent else structure.kv_heads,
        "head_dim": None if structure.only_latent else structure.head_dim,
        "latent": structure.latent,
        "window": window and {"tokens": window[0], "layers": window[1], "of": window[2]},
    }


def _in_use(answer: Account, cache: KVReport) -> dict[str, Any] | None:
    if answer.in_use is None:
        return None
    return {"share": float(answer.in_use), "bytes": answer.used(cache.bytes)}


def _weights(weights: WeightReport | None) -> dict[str, Any] | None:
    if weights is None:
        return None
    return {"bytes": weights.bytes, "parameters": weights.parameters}


def _step(answer: Account, step: Step) -> dict[str, Any]:
    return {
        "step": step.step,
        "bytes": step.bytes,
        "factor": round(step.before / step.bytes, 4) if step.bytes else None,
        "in_use_bytes": answer.used(step.bytes),
        "leaves_open": step.leaves_open,
    }


def structure_phrase(structure: Structure) -> str:
    """Return the structure in words: `32 layers, 32 heads of 128, 8 KV heads`."""
    parts = [counted(structure.layers, "layer")]
    dim, kv_heads = integer(structure.head_dim), structure.kv_heads
    if structure.heads is not None:
        parts.append(f"{counted(structure.heads, 'head')} of {dim}")
        if kv_heads < structure.heads:
            parts.append(counted(kv_heads, "KV head"))
    elif structure.latent is None:
        parts.append(f"{counted(kv_heads, 'KV head')} of {dim}")
    if structure.latent is not None:
        parts.append(f"one latent vector of {integer(structure.latent)}")
    if structure.window is not None:
        tokens, some, all_ = structure.window
        where = "every layer" if some == all_ else f"{some} of {counted(all_, 'layer')}"
        parts.append(f"a window of {counted(tokens, 'token')} in {where}")
    return ", ".join(parts)


def headline(answer: Account) -> str:
    """Return the one figure that was asked for, where no GPU or weights stand beside it."""
    cache = cache_of(answer)
    held = load_phrase(answer.report, cache)
    return f"{size(cache.bytes)} of KV cache for {held}, {dtype(cache.dtype)}."


def in_use_phrase(answer: Account) -> str | None:
    """Return how much of the reserved cache holds tokens, where a share was stated."""
    cache = cache_of(answer)
    used = answer.used(cache.bytes)
    if used is None:
        return None
    return f"{_share(answer)} of {size(cache.bytes)} in use: {size(used)} hold tokens."


def _share(answer: Account) -> str:
    share = answer.in_use
    return percent(share.numerator, share.denominator) if share is not None else ""


def factor(step: Step) -> str:
    """Return how many times less a step takes than the one before, nothing where it is the same."""
    return ratio(step.before, step.bytes) if 0 < step.bytes < step.before else ""


def most(answer: Account, tokens: int) -> list[tuple[str, int]]:
    """Return each GPU and how many sequences of `tokens` it holds at most."""
    return [
        (clean(gpu_phrase(held.fit), 40), held.fit.max_sequences)
        for held in answer.capacity
        if held.tokens == tokens
    ]


def kv_markdown(answer: Account) -> str:
    """Return the answer: the figure, the table, the savings."""
    return "\n".join(f"{block.rstrip()}\n" for block in _blocks(answer))


def _blocks(answer: Account) -> Iterator[str]:
    cache = cache_of(answer)
    yield f"### {structure_phrase(answer.structure)}"
    yield f"**{headline(answer)}** {size(cache.bytes_per_token)} for each further token."
    weights = answer.report.weights
    if weights is not None:
        yield f"Weights: {size(weights.bytes)}."
    if used := in_use_phrase(answer):
        yield used
    yield _grid(answer)
    yield _ladder(answer)


def _grid(answer: Account) -> str:
    tokens = dict.fromkeys(cell.tokens for cell in answer.grid)
    sequences = dict.fromkeys(cell.sequences for cell in answer.grid)
    bytes_of = {(cell.tokens, cell.sequences): cell.bytes for cell in answer.grid}
    gpus = [name for name, _ in most(answer, next(iter(tokens)))]
    heading = (
        ">tokens",
        *(f">{counted(n, 'sequence')}" for n in sequences),
        *(f">most on {escape(name)}" for name in gpus),
    )
    rows = (
        (
            integer(t),
            *(size(bytes_of[t, n]) for n in sequences),
            *(integer(held) for _, held in most(answer, t)),
        )
        for t in tokens
    )
    return markdown_table(heading, rows)


def _ladder(answer: Account) -> str:
    share = f">{_share(answer)} of it"
    rows = []
    for step in answer.ladder:
        used = answer.used(step.bytes)
        in_use = () if used is None else (size(used),)
        rows.append((step.step, size(step.bytes), *in_use, factor(step), step.leaves_open))
    extra = () if answer.in_use is None else (share,)
    return markdown_table(("step", ">cache", *extra, ">factor", "what it leaves open"), rows)


_FIT_COLUMNS = ("gpu", "count", "fits", "kv_pool_bytes_per_gpu", "max_sequences", "max_tokens")


def kv_csv(answer: Account) -> str:
    """Return one row for each context, batch and GPU."""
    cache = cache_of(answer)
    rows = (
        (cell.tokens, cell.sequences, cache.dtype, cell.bytes, answer.used(cell.bytes), *fit)
        for cell in answer.grid
        for fit in _fits(answer, cell.tokens)
    )
    heading = ("tokens", "sequences", "kv_dtype", "kv_bytes", "in_use_bytes", *_FIT_COLUMNS)
    return write_csv(heading, rows)


def _fits(answer: Account, tokens: int) -> list[tuple[object, ...]]:
    documents = [fit_document(held.fit) for held in answer.capacity if held.tokens == tokens]
    found = [tuple(document[name] for name in _FIT_COLUMNS) for document in documents]
    return found or [(None,) * len(_FIT_COLUMNS)]
