"""Size a cache from bare numbers: a structure without a repository, and the ladder of savings."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hfkv.core.architecture import Architecture
from hfkv.core.counts import counted
from hfkv.core.dtypes import KV_DTYPES, DType, cache_dtype
from hfkv.core.engines.registry import engine_named
from hfkv.core.kv import KVReport, measure, size_cache
from hfkv.core.precision import Precision
from hfkv.core.readings import Confidence
from hfkv.core.record import dataclass
from hfkv.core.stores import Grows, Layer, LayerKind, Role
from hfkv.core.workload import Workload
from hfkv.errors import UsageError

__all__ = [
    "Cell",
    "Step",
    "Structure",
    "architecture_of",
    "calculate",
    "derive",
    "grid",
    "ladder",
    "measured",
]

_MAX = 10_000_000  # no head count, dim or layer count comes near this


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """A decoder in numbers. `window` is (tokens, layers of a group that have it, group size).

    A `latent` without `heads` is one vector a layer, and its other dims are not known:
    `kv_heads` and `head_dim` are then 1 and the vector's own width.
    """

    layers: int
    kv_heads: int
    head_dim: int
    heads: int | None = None
    latent: int | None = None
    window: tuple[int, int, int] | None = None
    hidden: int | None = None

    @property
    def only_latent(self) -> bool:
        """Return whether a latent vector is all that is known of a layer."""
        return self.latent is not None and self.heads is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One entry of the table over contexts and concurrencies, in bytes."""

    tokens: int
    sequences: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One rung: what is done, the bytes after it, and what it leaves open.

    The factor to the rung before is `before` / `bytes`.
    """

    step: str
    bytes: int
    before: int
    leaves_open: str


def derive(
    *,
    layers: int,
    kv_heads: int | None = None,
    heads: int | None = None,
    head_dim: int | None = None,
    hidden: int | None = None,
    latent: int | None = None,
    window: tuple[int, int, int] | None = None,
) -> Structure:
    """Return the structure that the given numbers determine; raises UsageError.

    Without KV heads every head keeps its own; without a head dim it is hidden / heads.
    """
    kv_heads = kv_heads or heads
    if head_dim is None and hidden and heads:
        if hidden % heads:
            raise UsageError(
                f"a hidden size of {hidden} does not divide into {counted(heads, 'head')}",
                hint="say how wide a head is with --head-dim",
                code="structure",
            )
        head_dim = hidden // heads
    if latent is not None and heads is None:
        kv_heads, head_dim = 1, latent
    if kv_heads is None or head_dim is None:
        missing = "how many heads keep keys and values" if head_dim else "how wide a head is"
        raise UsageError(
            f"nothing says {missing}",
            hint="give --kv-heads and --head-dim, or --hidden and --heads, or --mla",
            code="structure",
        )
    return _checked(
        Structure(
            layers=layers,
            kv_heads=kv_heads,
            head_dim=head_dim,
            heads=heads,
            latent=latent,
            window=window,
            hidden=hidden,
        )
    )


def _checked(structure: Structure) -> Structure:
    numbers = (structure.layers, structure.kv_heads, structure.head_dim)
    optional = (structure.heads, structure.latent)
    if any(not 0 < n <= _MAX for n in (*numbers, *(n for n in optional if n is not None))):
        raise UsageError("layers, heads and dims must be positive numbers")
    if structure.layers > 10_000:
        raise UsageError("no model has more than 10,000 layers")
    if structure.heads is not None and structure.heads % structure.kv_heads:
        raise UsageError(
            f"{counted(structure.heads, 'head')} cannot be divided into "
            f"{counted(structure.kv_heads, 'KV head')}",
            hint="KV heads must divide the heads",
        )
    if structure.window is not None:
        tokens, part, whole = structure.window
        if not (tokens > 0 and 0 < part <= whole):
            raise UsageError(
                "a window is TOKENS or TOKENS:PART/WHOLE with PART of every WHOLE layers",
                hint="for example --window 4096:5/6",
            )
    return structure


def _layers(structure: Structure) -> tuple[Layer, ...]:
    """Return the layers; the full ones close each group, as in Gemma 3."""
    if structure.latent is not None:
        store = Grows(key=structure.latent, role=Role.LATENT)
        kind = LayerKind.LATENT
    else:
        dim = structure.head_dim
        store = Grows(heads=structure.kv_heads, key=dim, value=dim)
        kind = LayerKind.FULL
    full = Layer(kind=kind, stores=(store,), heads=structure.heads)
    if structure.window is None:
        return (full,) * structure.layers
    tokens, part, whole = structure.window
    near = Layer(
        kind=LayerKind.SLIDING, stores=(replace(store, window=tokens),), heads=structure.heads
    )
    return tuple(near if i % whole < part else full for i in range(structure.layers))


def architecture_of(structure: Structure) -> Architecture:
    """Return the structure as an Architecture; raises UsageError for nonsense."""
    _checked(structure)
    heads, kv_heads = structure.heads, structure.kv_heads
    sharing = "MHA" if heads == kv_heads else "MQA" if kv_heads == 1 else "GQA"
    return Architecture(
        class_name=None,
        model_type=None,
        family=None,
        kind="decoder",
        layers=_layers(structure),
        num_hidden_layers=structure.layers,
        hidden_size=structure.hidden or (heads * structure.head_dim if heads else None),
        vocab_size=None,
        max_context=None,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=structure.head_dim,
        v_head_dim=structure.head_dim,
        sliding_window=structure.window[0] if structure.window else None,
        attention="MLA" if structure.latent else sharing,
        confidence=Confidence.DECLARED,
        simple=None if structure.only_latent else (structure.layers, kv_heads, structure.head_dim),
    )


def _precision(dtype: DType) -> Precision:
    return Precision(
        cache=dtype,
        cache_source="--kv-dtype",
        compute=KV_DTYPES["bfloat16"],
        compute_source="--kv-dtype",
    )


def calculate(structure: Structure, *, tokens: int, sequences: int, dtype: str) -> KVReport:
    """Return the cache of `sequences` sequences of `tokens` tokens; raises UsageError."""
    _positive(tokens, sequences)
    return size_cache(
        architecture_of(structure),
        Workload(context=tokens, sequences=sequences),
        engine_named("none"),
        _precision(cache_dtype(dtype)),
        tokens=tokens,
    )


def _positive(*numbers: int) -> None:
    if any(number < 1 for number in numbers):
        raise UsageError("lengths and concurrency must be positive numbers")


def measured(
    arch: Architecture, workload: Workload, *, tokens: int, tp: int = 1, pp: int = 1
) -> int:
    """Return the bytes of one sequence on the most loaded rank, in the workload's format."""
    return measure(
        arch,
        workload,
        engine_named("none"),
        _precision(cache_dtype(workload.kv_dtype)),
        tokens=tokens,
        tp=tp,
        pp=pp,
    )


def _total(structure: Structure, tokens: int, sequences: int, dtype: str) -> int:
    one = measured(architecture_of(structure), Workload(kv_dtype=dtype), tokens=tokens)
    return one * sequences


def grid(
    structure: Structure, *, contexts: tuple[int, ...], sequences: tuple[int, ...], dtype: str
) -> tuple[Cell, ...]:
    """Return the table over contexts x concurrencies, contexts outermost."""
    _positive(*contexts, *sequences)
    return tuple(
        Cell(tokens=t, sequences=n, bytes=_total(structure, t, n, dtype))
        for t in contexts
        for n in sequences
    )


def ladder(structure: Structure, *, tokens: int, sequences: int, dtype: str) -> tuple[Step, ...]:
    """Return the savings one after the other, from full multi-head attention down.

    A rung that the structure does not use is left out; formats narrower than the asked one
    are rungs of their own. The last two change no size, and say so.
    """
    _positive(tokens, sequences)
    heads = _checked(structure).heads or structure.kv_heads
    bare = replace(structure, heads=heads, kv_heads=heads, latent=None, window=None)
    rungs: list[tuple[str, Structure, str, str]] = []
    if not structure.only_latent:
        what = f"{counted(heads, 'KV head')}, {dtype}"
        own = "every head keeps keys and values of its own"
        rungs.append(
            (what, bare, dtype, own if structure.heads else "--heads says who shares them")
        )
    if structure.kv_heads < heads:
        bare = replace(bare, kv_heads=structure.kv_heads)
        what = f"{structure.kv_heads} of {heads} KV heads"
        rungs.append((what, bare, dtype, "a property of the trained model, not a setting"))
    if structure.latent is not None:
        bare = replace(bare, latent=structure.latent)
        what = f"one latent vector of {structure.latent}"
        rungs.append((what, bare, dtype, "a property of the trained model; not split by TP"))
    if structure.window is not None:
        bare = replace(bare, window=structure.window)
        size, part, whole = structure.window
        what = f"window of {counted(size, 'token')} in {part} of {counted(whole, 'layer')}"
        rungs.append((what, bare, dtype, "caps tokens, so it saves nothing in shorter contexts"))
    rungs += [
        (f"{name} cache", bare, name, "needs engine support; check the quality")
        for name in _narrower(dtype)
    ]
    return _climb(rungs, tokens, sequences)


def _narrower(dtype: str) -> tuple[str, ...]:
    """Return the integer formats that take fewer bits than the asked one, widest first."""
    asked = Fraction(*cache_dtype(dtype).bits)
    return tuple(name for name in ("int8", "int4") if Fraction(*KV_DTYPES[name].bits) < asked)


def _climb(
    rungs: list[tuple[str, Structure, str, str]], tokens: int, sequences: int
) -> tuple[Step, ...]:
    steps: list[Step] = []
    for what, structure, dtype, leaves_open in rungs:
        size = _total(structure, tokens, sequences, dtype)
        before = steps[-1].bytes if steps else size
        steps.append(Step(step=what, bytes=size, before=before, leaves_open=leaves_open))
    last = steps[-1].bytes
    for what, leaves_open in (
        ("paged allocation", "the same bytes; more of the reserved pool is in use"),
        ("offloading", "the same bytes, on another device and behind its bandwidth"),
    ):
        steps.append(Step(step=what, bytes=last, before=last, leaves_open=leaves_open))
    return tuple(steps)
