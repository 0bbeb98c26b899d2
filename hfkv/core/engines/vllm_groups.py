"""How vLLM's layers share one pool of blocks: groups, padding layers, bytes per block.

Source: vLLM 0.32 v1/core/kv_cache_utils.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import groupby

from hfkv.core.engines.vllm_specs import FULL_KINDS, Demand, Kind, Spec
from hfkv.core.record import dataclass, replace
from hfkv.errors import UnsupportedError

__all__ = ["Group", "form_groups", "pool_bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Layers that share a block table: a block holds one page of each."""

    specs: tuple[Spec, ...]

    def blocks(self, demand: Demand) -> int:
        """Return the blocks that one request may hold in this group."""
        return max(spec.blocks(demand) for spec in self.specs)

    def bytes_per_block(self, layers: Callable[[int], bool] = lambda _: True) -> int:
        """Return the bytes of one block, counting the layers that a rank holds."""
        return sum(spec.page_bytes for spec in self.specs if layers(spec.layer))


def pool_bytes(groups: tuple[Group, ...], layers: Callable[[int], bool] = lambda _: True) -> int:
    """Return the bytes of one block of the pool: the widest group's."""
    return max((group.bytes_per_block(layers) for group in groups), default=0)


def form_groups(
    specs: tuple[Spec, ...], *, hybrid_manager: bool = True, packed: bool = False
) -> tuple[Group, ...]:
    """Return the groups of a model's layers.

    Layers of one type share a group. Others get pages of one size, are sorted into buckets
    of equal specs and cut into groups of equally many layers. `packed` layouts put pages
    of different sizes side by side instead. Raises UnsupportedError where pages cannot be
    made equal.
    """
    if not hybrid_manager:
        specs = _promoted(specs)
    if not specs:
        return ()
    if _uniform(specs):
        return (Group(specs=specs),)
    if packed:
        return _packed(specs)
    return _equal_groups(_one_page_size(specs))


def _uniform(specs: tuple[Spec, ...]) -> bool:
    """Tell whether all specs ask for the same blocks, whatever their widths."""
    return len({_slots_alike(spec) for spec in specs}) == 1


def _slots_alike(spec: Spec) -> tuple[object, ...]:
    if spec.kind in FULL_KINDS:
        return "full", spec.block_size
    if spec.kind is Kind.STATE:
        return spec.kind, spec.block_size, spec.states, spec.page_bytes
    return spec.kind, spec.block_size, spec.window


def _promoted(specs: tuple[Spec, ...]) -> tuple[Spec, ...]:
    """Return windows and chunks as full attention: blocks are kept for every token.

    Without the hybrid manager only one type may be left.
    """
    if _uniform(specs):
        return specs
    full = {spec.block_size for spec in specs if spec.kind in FULL_KINDS}
    if full:
        block = full.pop() if len(full) == 1 else None
        specs = tuple(
            replace(spec, kind=Kind.FULL, window=None, block_size=block or spec.block_size)
            if spec.kind in (Kind.SLIDING, Kind.CHUNKED)
            else spec
            for spec in specs
        )
    if not _uniform(specs):
        raise UnsupportedError(
            "vLLM cannot serve this model without its hybrid KV cache manager: its layers "
            "cannot be turned into one type",
            hint="leave out --disable-hybrid-kv-cache-manager",
            code="hybrid-manager",
        )
    return specs


def _one_page_size(specs: tuple[Spec, ...]) -> tuple[Spec, ...]:
    """Return the specs with pages as large as the largest.

    A page that divides it gets a block of more tokens, another is padded; latent rows
    cannot be padded.
    """
    largest = max(spec.page_bytes for spec in specs)

    def widened(spec: Spec) -> Spec:
        page = spec.page_bytes
        if page == largest:
            return spec
        if spec.kind is not Kind.STATE and largest % page == 0:
            return replace(spec, block_size=spec.block_size * (largest // page))
        if spec.kind in (Kind.LATENT, Kind.INDEX):
            raise UnsupportedError(
                f"vLLM cannot pad a latent page of {page} bytes to {largest} bytes",
                hint="another --block-size or --kv-dtype may make the pages divide",
                code="page-size",
            )
        return replace(spec, padded=largest)

    return tuple(widened(spec) for spec in specs)


def _equal_groups(specs: tuple[Spec, ...]) -> tuple[Group, ...]:
    """Cut buckets of equal specs into groups of equally many layers, the last one padded.

    The smallest bucket sets the number, or the largest where it is less than half as large
    again. Layers are dealt in turn, so that every pipeline stage gets some of each group.
    """
    buckets: dict[Spec, list[Spec]] = {}
    for spec in specs:
        buckets.setdefault(spec, []).append(spec)
    sizes = [len(bucket) for bucket in buckets.values()]
    size = max(sizes) if 2 * max(sizes) < 3 * min(sizes) else min(sizes)
    groups: list[Group] = []
    for bucket in buckets.values():
        count = -(-len(bucket) // size)
        groups += [Group(specs=tuple(bucket[i::count])) for i in range(count)]
    return tuple(groups)


def _packed(specs: tuple[Spec, ...]) -> tuple[Group, ...]:
    """Group pages of different sizes that lie side by side in a block (DeepSeek-V4).

    A bucket whose page sizes come equally often is a repeating pattern and may be split
    between repeats; the number of repeats is the one that pads least, at least as many as
    the largest mixed bucket has.
    """
    buckets: dict[tuple[object, ...], list[Spec]] = {}
    for spec in specs:
        buckets.setdefault(_slots_alike(spec), []).append(spec)
    patterns = [_by_page(bucket) for bucket in buckets.values()]
    mixed = [_repeats(pages) for pages in patterns if _balanced(pages) and len(pages) > 1]
    if not mixed:
        return _beside(list(buckets.values()))
    repeats = _least_padding([_repeats(p) for p in patterns if _balanced(p)], floor=max(mixed))
    groups: list[Group] = []
    for pages in patterns:
        count = -(-_repeats(pages) // repeats) if _balanced(pages) else 1
        for i in range(count):
            chosen = tuple(spec for bucket in pages for spec in bucket[i::count])
            groups.append(Group(specs=chosen))
    return tuple(groups)


def _beside(buckets: list[list[Spec]]) -> tuple[Group, ...]:
    """Keep buckets whole, but cut windows to what a block of the others has room for."""
    whole = [bucket for bucket in buckets if bucket[0].kind is not Kind.SLIDING]
    single = max(spec.page_bytes for bucket in buckets for spec in bucket)
    room = max([single, *(sum(spec.page_bytes for spec in bucket) for bucket in whole)])
    groups: list[Group] = []
    for bucket in buckets:
        count = 1 if bucket in whole else -(-len(bucket) // (room // bucket[0].page_bytes))
        groups += [Group(specs=tuple(bucket[i::count])) for i in range(count)]
    return tuple(groups)


def _by_page(bucket: list[Spec]) -> list[list[Spec]]:
    ordered = sorted(bucket, key=lambda spec: spec.page_bytes)
    return [list(alike) for _, alike in groupby(ordered, key=lambda spec: spec.page_bytes)]


def _repeats(pages: list[list[Spec]]) -> int:
    return max(len(bucket) for bucket in pages)


def _balanced(pages: list[list[Spec]]) -> bool:
    return len(Counter(len(bucket) for bucket in pages)) == 1


def _least_padding(counts: list[int], *, floor: int) -> int:
    """Return the chunk size that rounds `counts` up the least; the largest of equals."""
    sizes = range(floor, max(*counts, floor) + 1)
    return min(sizes, key=lambda size: (sum(-count % size for count in counts), -size))
