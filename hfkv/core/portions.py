"""Weights as portions: which tensor-parallel ranks and which pipeline stages hold them.

A rule of the kinds of tensors, not of models. Matrices are cut, and every rank keeps whole
what vLLM makes ReplicatedLinear or a plain module: norms, latent down-projections, routers and
gates, sparse-attention indexers, learned positions, per-layer inputs, and the biases of
row-parallel matrices. Keys and values are cut by their heads, which are copied where there are
fewer than ranks.
Source: vLLM 0.19, model_executor/layers/linear.py (QKVParallelLinear, RowParallelLinear) and
model_executor/models: deepseek_v2.py (`fused_qkv_a_proj` with disable_tp, Indexer, gate),
mixtral.py, pixtral.py, qwen3_next.py (gates), gemma4.py (per-layer inputs), deepseek_mtp.py
(`eh_proj`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction

from hfkv.core.architecture import Architecture
from hfkv.core.engines.mxfp4 import UNPADDED, ExpertMatrix, Mxfp4Kernel
from hfkv.core.engines.stages import pipeline_stages
from hfkv.core.files import TensorGroup
from hfkv.core.pieces import Piece
from hfkv.core.record import dataclass
from hfkv.core.roles import decoder_layer, role_of
from hfkv.core.stores import Grows, Role

__all__ = ["POSITIONS", "Portion", "Shares", "in_roles", "portions_of"]

POSITIONS = "positions"  # the role of tables that an engine builds beside the weights

_ROUTER = re.compile(
    r"""(?x)(?:^|\.)(?:
    (?:mlp|ffn|mixer|moe|feed_forward|block_sparse_moe)\.(?:gate|wg)(?:\.e_score_correction)?
    |router(?:\.\w+)*|shared_expert_gate|e_score_correction_bias
    )$"""
)
_COPIED = re.compile(
    r"""(?x)(?:^|\.)(?:
    q_a_proj|kv_a_proj_with_mqa|fused_qkv_a_proj\w*|wq_a|indexer(?:\.\w+)*|eh_proj
    |wpe|(?:\w*_)?position(?:s|_embeddings?)|token_type_embeddings
    |patch_embed\w*(?:\.proj)?|class_embedding|per_layer_input_gate|per_layer_projection
    )$"""
)
# Mistral's own vision towers are plain modules (pixtral.py); under Hugging Face names they are cut.
_WHOLE = re.compile(r"^(?:vision_encoder|vision_language_adapter|patch_merger)\.")
_MXFP4 = re.compile(r"(?:^|\.)experts\.(gate_up|down)_proj_(blocks|scales)$")
_MXFP4_GROUP = 32
_SHARED = re.compile(r"(?:^|[._])shared_(?:expert|mlp)")
_ROWS = re.compile(r"(?:^|\.)(?:o_proj|out_proj|down_proj|dense_4h_to_h|dense|c_proj|fc2|wo|w2)$")
_KEYS_VALUES = re.compile(r"(?:^|\.)(?:k_proj|v_proj|kv_proj|key|value|wk|wv)$")
_FUSED = re.compile(r"(?:^|\.)(?:qkv_proj|query_key_value|wqkv|c_attn|qkv)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Bytes of one role that are shared out alike.

    `cut` is evenly, copied, by-kv-heads or fused (queries, keys and values in one matrix).
    `layers` are the decoder layers they belong to, in equal parts; outside of layers
    `stage` is first, last, ends (both: a tied embedding) or all. `rows` are those of a
    vocabulary table, 0 for anything else. `routed` experts are those of which a token uses a
    few: not shared ones, and not their router. `matrix` is which of mxfp4 experts' it is.
    The role is one of the contract's or POSITIONS.
    """

    role: str
    bytes: int
    cut: str = "evenly"
    stage: str = "all"
    layers: tuple[int, ...] = ()
    rows: int = 0
    routed: bool = False
    matrix: ExpertMatrix | None = None


def portions_of(pieces: Iterable[Piece], *, tied: bool) -> tuple[Portion, ...]:
    """Return the portions of tensors; those alike are one."""
    sums: Counter[Portion] = Counter()
    for piece in pieces:
        sums[_kind(piece, tied=tied)] += piece.bytes
    return tuple(replace(kind, bytes=size) for kind, size in sums.items())


def _kind(piece: Piece, *, tied: bool) -> Portion:
    group, role = piece.stored.group, piece.role
    module, suffix = piece.stored.module, piece.stored.key
    if role != "mtp" and decoder_layer(group.name):
        # a group that reaches into the next-token layers was split: these are the model's own
        own = len(group.layers) * piece.count // group.count
        cut = _cut(role, module, suffix)
        routed = role == "experts" and not (_SHARED.search(module) or _ROUTER.search(module))
        return Portion(
            role=role,
            bytes=0,
            cut=cut,
            layers=group.layers[:own],
            routed=routed,
            matrix=_matrix(group),
        )
    stages = {"embedding": "ends" if tied else "first"}
    stages |= dict.fromkeys(("lm_head", "norm", "mtp"), "last")
    table = role in ("embedding", "lm_head") and len(group.shape) == 2
    cut = _cut(role, module, suffix)
    rows = group.shape[0] if table and cut == "evenly" else 0
    return Portion(role=role, bytes=0, cut=cut, stage=stages.get(role, "all"), rows=rows)


def _matrix(group: TensorGroup) -> ExpertMatrix | None:
    """Return which matrix of gpt-oss's: [experts, rows, columns / 32 (, 16 bytes)]."""
    found = _MXFP4.search(group.name)
    if found is None or len(group.shape) < 3:
        return None
    down, scales = found[1] == "down", found[2] == "scales"
    rows, columns = group.shape[1], group.shape[2] * _MXFP4_GROUP
    hidden, inner = (rows, columns) if down else (columns, rows // 2)
    return ExpertMatrix(hidden=hidden, inner=inner, down=down, scales=scales)


def _cut(role: str, module: str, suffix: str) -> str:
    if role_of(module) == "norm" or _ROUTER.search(module) or _COPIED.search(module):
        return "copied"
    if _WHOLE.match(module) or (suffix == "bias" and _ROWS.search(module)):
        return "copied"
    if role == "attention" and _KEYS_VALUES.search(module):
        return "by-kv-heads"
    return "fused" if role == "attention" and _FUSED.search(module) else "evenly"


def in_roles(portions: Iterable[Portion], sizes: dict[str, int]) -> tuple[Portion, ...]:
    """Return portions scaled to other totals of their roles; a role without one is left out.

    Tables that an engine builds stay as they are, and what was mxfp4 is no longer.
    """
    known = tuple(portions)
    sizes = {**sizes, POSITIONS: sum(p.bytes for p in known if p.role == POSITIONS)}
    totals: Counter[str] = Counter()
    for portion in known:
        totals[portion.role] += portion.bytes
    return tuple(
        replace(p, bytes=p.bytes * sizes[p.role] // totals[p.role], matrix=None)
        for p in known
        if p.role in sizes
    )


class Shares:
    """What of a model's portions the fullest rank of a plan holds; each plan is worked out once.

    Rows of vocabulary tables are rounded up to a multiple of `padding`, and mxfp4 experts are
    laid out for the kernel that the engine takes on a GPU. Towers, and what belongs neither
    to a layer nor to an end of the model, are built on every stage.
    Source of the stages: vLLM 0.19, models/llama.py (embeddings with the first layers, and
    with the last too where they are tied; head and last norm with the last).
    """

    def __init__(
        self,
        portions: Iterable[Portion],
        architecture: Architecture,
        *,
        padding: int = 1,
    ) -> None:
        """Take the portions of one model; the architecture says its heads and layers."""
        self._portions = tuple(portions)
        self._architecture = architecture
        self._padding = padding
        self._plans: dict[tuple[int, int, Mxfp4Kernel], Fraction] = {}
        self.bytes = sum(portion.bytes for portion in self._portions)
        self.mxfp4_bytes = sum(p.bytes for p in self._portions if p.matrix)

    def on_fullest_rank(self, *, tp: int, pp: int, kernel: Mxfp4Kernel = UNPADDED) -> Fraction:
        """Return the bytes on the fullest rank of the fullest stage."""
        plan = (tp, pp, kernel)
        if plan not in self._plans:
            self._plans[plan] = self._fullest(*plan)
        return self._plans[plan]

    def _fullest(self, tp: int, pp: int, kernel: Mxfp4Kernel) -> Fraction:
        layers = self._architecture.num_hidden_layers or len(self._architecture.layers)
        ends = [stage.stop for stage in pipeline_stages(layers, pp)]
        heads = _heads(self._architecture) if tp > 1 else []
        sums = [Fraction(0)] * pp
        for portion in self._portions:
            size = portion.bytes * _share(portion, heads, tp)
            if portion.rows:
                size *= _growth(portion.rows, self._padding)
            if portion.matrix:
                size *= kernel.growth(portion.matrix, tp)
            for i, part in enumerate(_placed(portion, ends)):
                if part:
                    sums[i] += size * part
        return max(sums)


def _growth(size: int, multiple: int) -> Fraction:
    """Return by how much a size grows when it is rounded up to a multiple."""
    return Fraction(-(-size // multiple) * multiple, size)


def _placed(portion: Portion, ends: list[int]) -> Iterator[Fraction]:
    """Yield which share of a portion each stage has; what is behind the last end is the last's."""
    last = len(ends) - 1
    if not portion.layers:
        here = {"first": {0}, "last": {last}, "ends": {0, last}}.get(portion.stage)
        yield from (Fraction(here is None or i in here) for i in range(last + 1))
        return
    before, count = 0, len(portion.layers)
    for i, end in enumerate(ends):
        until = count if i == last else bisect_left(portion.layers, end)
        yield Fraction(until - before, count)
        before = until


Heads = tuple[int | None, int | None]  # query and KV heads of a layer


def _share(portion: Portion, heads: list[Heads], tp: int) -> Fraction:
    """Return which share of a portion one tensor-parallel rank has."""
    if portion.cut == "copied" or tp == 1:
        return Fraction(1)
    if portion.cut == "evenly" or not portion.layers:
        return Fraction(1, tp)
    known = len(heads) - 1
    found = Counter(heads[min(layer, known)] for layer in portion.layers)
    total = sum((n * _of_heads(portion.cut, *h, tp) for h, n in found.items()), Fraction(0))
    return total / len(portion.layers)


def _heads(architecture: Architecture) -> list[Heads]:
    """Return the query and KV heads of every layer, and last those of a layer that is not known."""
    found: list[Heads] = []
    for layer in architecture.layers:
        kept = (s.heads for s in layer.stores if isinstance(s, Grows) and s.role is Role.KV)
        found.append((layer.heads, next(kept, None)))
    return [*found, (architecture.num_attention_heads, architecture.num_key_value_heads)]


def _of_heads(cut: str, heads: int | None, kv_heads: int | None, tp: int) -> Fraction:
    if kv_heads is None or kv_heads >= tp or (cut == "fused" and heads is None):
        return Fraction(1, tp)
    copied = Fraction(1, kv_heads)
    if cut == "by-kv-heads":
        return copied
    keys_values = Fraction(2 * kv_heads, (heads or 0) + 2 * kv_heads)
    return keys_values * copied + (1 - keys_values) / tp
