"""The second witness: what the config claims of every layer, against the tensors' shapes.

Evidence never overwrites a value. It raises the confidence to confirmed or lowers it to
doubtful, and says why in one sentence with both values, the tensor and the config key.
What leaves no trace in a header (windows, chunks, strides) is listed as silent.
"""

from __future__ import annotations

from collections.abc import Iterator

from hfkv.core.architecture import Architecture
from hfkv.core.counts import counted
from hfkv.core.evidence.checks import Verdict, check_layer, origin
from hfkv.core.evidence.observe import Seen, Stack, encoder_depth, observe
from hfkv.core.files import ModelFiles
from hfkv.core.readings import Reading
from hfkv.core.record import dataclass
from hfkv.core.stores import Grows

__all__ = ["Evidence", "compare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the tensors say about an architecture.

    `agreements` are figures with the tensor that confirms them; `disagreements` and
    `silent` are sentences. `complete` says that every store of every layer was confirmed.
    """

    agreements: tuple[Reading, ...] = ()
    disagreements: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    complete: bool = False


def compare(arch: Architecture, files: ModelFiles) -> Evidence:
    """Return what the tensor shapes say about an architecture that a config declared."""
    if not files.tensors or not arch.layers:
        return Evidence()
    if arch.kind == "encoder":
        return _encoder(arch, files)
    stack = observe(files, num_hidden_layers=arch.num_hidden_layers)
    if stack is None:
        return Evidence(silent=("no tensor name looks like a decoder layer",))
    whole = [*_whole(arch, stack), *_source(arch, files)]
    layered = [
        (i, verdict)
        for i, layer in enumerate(arch.layers)
        if i in stack.layers
        for verdict in check_layer(arch, layer, stack.layers[i], stack)
    ]
    wrong = [_sentence(v, 0, 1) for v in whole if v.disagrees]
    wrong += _grouped(layered)
    unseen = [v for _, v in layered if v.tensor is None and not v.disagrees]
    return Evidence(
        agreements=tuple(_agreements(whole, layered)),
        disagreements=tuple(wrong),
        silent=tuple(_silent(arch, unseen, whole)),
        complete=not wrong and not unseen and any(v.tensor for _, v in layered),
    )


def _encoder(arch: Architecture, files: ModelFiles) -> Evidence:
    """Compare an encoder, which keeps no cache: its depth is all there is to confirm."""
    found = encoder_depth(files)
    if found is None:
        stack = observe(files, num_hidden_layers=arch.num_hidden_layers)
        found = (stack.depth, stack.prefix + ".{}") if stack else None
    if found is None:
        return Evidence(silent=("no tensor name looks like an encoder layer",))
    verdict = _depth(arch, *found)
    if verdict.disagrees:
        return Evidence(disagreements=(_sentence(verdict, 0, 1),))
    return Evidence(agreements=tuple(_agreements([verdict], [])), complete=True)


def _depth(arch: Architecture, depth: int, tensor: str) -> Verdict:
    claimed = arch.num_hidden_layers or 0
    seen = Seen(tensor=tensor, shape=())
    if depth == claimed:
        return Verdict(field="num_hidden_layers", value=claimed, tensor=seen)
    return Verdict(
        field="num_hidden_layers",
        value=claimed,
        tensor=seen,
        claim=f"{counted(claimed, 'layer')} ({origin(arch, 'num_hidden_layers')})",
        fact=f"the tensors have {depth} (`{tensor}`)",
    )


def _whole(arch: Architecture, stack: Stack) -> Iterator[Verdict]:
    """Compare what is true of the model as a whole."""
    yield _depth(arch, stack.depth, f"{stack.prefix}.{{}}")
    table = stack.embedding
    if table is None:
        return
    if arch.hidden_size == table.columns:
        yield Verdict(field="hidden_size", value=table.columns, tensor=table)
    if arch.vocab_size and table.rows == arch.vocab_size:
        yield Verdict(field="vocab_size", value=table.rows, tensor=table)


def _source(arch: Architecture, files: ModelFiles) -> Iterator[Verdict]:
    """Compare the encoder's positions, which cross-attention keeps; BART's table has two more."""
    for group in files.tensors:
        if arch.source_tokens and group.name.endswith("encoder.embed_positions.weight"):
            seen = Seen(tensor=group.name, shape=group.shape)
            fits = seen.rows in {arch.source_tokens, arch.source_tokens + 2}
            yield Verdict(
                field="source positions",
                value=arch.source_tokens,
                tensor=seen,
                claim=f"{arch.source_tokens} source positions",
                fact="" if fits else f"`{group.name}` has {seen.rows} rows",
            )


def _sentence(verdict: Verdict, layer: int, layers: int) -> str:
    """Return one disagreement, naming one real tensor and how many layers it is true of."""
    more = f" (and {counted(layers - 1, 'more layer')})" if layers > 1 else ""
    fact = verdict.fact
    if verdict.tensor is not None and verdict.field != "num_hidden_layers":
        fact = fact.replace(verdict.tensor.tensor, verdict.tensor.named(layer))
    else:
        fact = fact.replace(".{}.", f".{layer}.", 1)
    return f"the config says {verdict.claim}, but {fact}{more}"


def _grouped(layered: list[tuple[int, Verdict]]) -> Iterator[str]:
    """Say the same disagreement of many layers once."""
    groups: dict[tuple[str, str], list[tuple[int, Verdict]]] = {}
    for layer, verdict in layered:
        if verdict.disagrees:
            groups.setdefault((verdict.claim, verdict.fact), []).append((layer, verdict))
    for found in groups.values():
        layer, verdict = found[0]
        place = f"layer {layer}: " if len(found) == 1 else ""
        yield place + _sentence(verdict, layer, len(found))


def _agreements(whole: list[Verdict], layered: list[tuple[int, Verdict]]) -> Iterator[Reading]:
    """Return every confirmed figure once, with the template and the number of layers."""
    for verdict in whole:
        if verdict.tensor and not verdict.disagrees:
            yield Reading(
                field=verdict.field, value=verdict.value, source=f"`{verdict.tensor.tensor}`"
            )
    counts: dict[tuple[str, object, str], int] = {}
    for _, verdict in layered:
        if verdict.tensor and not verdict.disagrees:
            key = (verdict.field, verdict.value, verdict.tensor.tensor)
            counts[key] = counts.get(key, 0) + 1
    for (field, value, tensor), layers in counts.items():
        source = f"`{tensor}` in {counted(layers, 'layer')}"
        yield Reading(field=field, value=value, source=source)


def _silent(arch: Architecture, unseen: list[Verdict], whole: list[Verdict]) -> Iterator[str]:
    """Say what no tensor shows, right or wrong."""
    for field in dict.fromkeys(verdict.field for verdict in unseen):
        yield f"no tensor was found that tells the {field}"
    stores = [s for layer in arch.layers for s in layer.stores if isinstance(s, Grows)]
    if any(store.window for store in stores):
        yield "windows leave no trace in the tensors"
    if any(store.stride > 1 for store in stores):
        yield "strides leave no trace in the tensors"
    if arch.source_tokens and all(verdict.field != "source positions" for verdict in whole):
        yield "the source length leaves no trace in the tensors"
