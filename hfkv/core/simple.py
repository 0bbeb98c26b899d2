"""The simple formula, 2·L·Hkv·D·T·B·S, and every reason why it may not apply.

It applies when each layer holds exactly one store that grows with every token, with the
same heads and dims on all layers and keys as wide as values. Nothing here is a list of
models: the reasons follow from the stores.
"""

from __future__ import annotations

from hfkv.core.architecture import Architecture
from hfkv.core.counts import counted
from hfkv.core.dtypes import DType
from hfkv.core.record import dataclass
from hfkv.core.stores import Fixed, Grows, Role, Store
from hfkv.errors import UsageError

__all__ = ["SimpleFormula", "checked", "simple_formula"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleFormula:
    """2·L·Hkv·D·T·B·S beside the truth; `why_not` are sentences, `codes` name them."""

    applies: bool
    bytes: int | None
    why_not: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()


def _grows(stores: list[tuple[Store, ...]], *roles: Role) -> list[Grows]:
    return [s for layer in stores for s in layer if isinstance(s, Grows) and s.role in roles]


def _reasons(stores: list[tuple[Store, ...]], longest: int) -> list[tuple[str, str]]:
    """Return (code, sentence) for everything that breaks the formula."""
    flat = [s for layer in stores for s in layer]
    kept = _grows(stores, Role.KV)
    empty = sum(1 for layer in stores if not layer)
    found: list[tuple[str, str]] = []
    if not flat:
        return [("encoder-only", "no layer keeps anything between tokens")]
    latent = _grows(stores, Role.LATENT)
    if latent:
        found.append(("mla", f"{_keep(len(latent))} one latent vector instead of keys and values"))
    found += _window_reasons(kept + latent, longest)
    if any(s.stride > 1 for s in _grows(stores, Role.KV)):
        found.append(("compressed", "some layers keep one entry for several tokens"))
    if _grows(stores, Role.INDEX):
        found.append(("sparse-index", "sparse attention keeps index keys beside the cache"))
    if _grows(stores, Role.CROSS):
        found.append(("cross-attention", "cross-attention keeps source positions, not text"))
    fixed = sum(1 for layer in stores if any(isinstance(s, Fixed) for s in layer))
    if fixed:
        found.append(("hybrid", f"{_some(fixed, len(stores))} a state of fixed size"))
    if empty:
        found.append(("empty-layers", f"{_some(empty, len(stores))} nothing"))
    if len({(s.heads, s.key, s.value) for s in kept}) > 1:
        found.append(("variable-heads", "KV heads or head dims differ between layers"))
    if any(s.value != s.key and s.stride == 1 and s.window is None for s in kept):
        found.append(("k-ne-v", "keys and values differ in width"))
    return found


def _keep(layers: int) -> str:
    return f"{counted(layers, 'layer')} keep{'s' * (layers == 1)}"


def _some(layers: int, of: int) -> str:
    return f"{layers} of {counted(of, 'layer')} keep{'s' * (layers == 1)}"


def _window_reasons(kept: list[Grows], longest: int) -> list[tuple[str, str]]:
    limited = [s for s in kept if s.window is not None and s.window < longest]
    found = []
    for chunked, code, word in (
        (False, "sliding-window", "window"),
        (True, "chunked-attention", "chunk"),
    ):
        limits = sorted({s.window for s in limited if s.chunked is chunked and s.window})
        if limits:
            count = sum(1 for s in limited if s.chunked is chunked)
            sizes = " or ".join(f"{n:,}" for n in limits)
            found.append(
                (code, f"{_keep(count)} at most a {word} of {sizes} token{'s' * (limits != [1])}")
            )
    return found


def _naive(inputs: tuple[int, int, int] | None, dtype: DType, positions: int) -> int | None:
    if inputs is None:
        return None
    layers, heads, dim = inputs
    try:
        return dtype.size(2 * layers * heads * dim) * positions
    except UsageError:
        return None


def simple_formula(
    arch: Architecture,
    stores: list[tuple[Store, ...]],
    dtype: DType,
    *,
    longest: int,
    positions: int,
    shared: bool = False,
) -> SimpleFormula:
    """Compare the formula with the stores: `positions` tokens in all, `longest` in one sequence.

    `shared` says that several sequences keep a common prefix once.
    """
    reasons = _reasons(stores, longest)
    if shared:
        reasons.append(("shared-prefix", "a prefix that sequences have in common is kept once"))
    if reasons:
        return SimpleFormula(
            applies=False,
            bytes=_naive(arch.simple, dtype, positions),
            why_not=tuple(sentence for _code, sentence in reasons),
            codes=tuple(code for code, _sentence in reasons),
        )
    first = _grows(stores, Role.KV)[0]
    inputs = (len(stores), first.heads or 1, first.key)
    return SimpleFormula(applies=True, bytes=_naive(inputs, dtype, positions))


def checked(formula: SimpleFormula, total: int) -> SimpleFormula:
    """Take the formula back where the engine packs, pads or rounds what it would multiply."""
    if not formula.applies or formula.bytes == total:
        return formula
    return SimpleFormula(
        applies=False,
        bytes=formula.bytes,
        why_not=("the engine packs, pads or rounds what it keeps",),
        codes=("engine-layout",),
    )
