"""Weights as portions: how tensor parallelism and pipelines share them out.

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
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hfkv.core.engines.mxfp4 import ExpertMatrix
from hfkv.core.files import TensorGroup
from hfkv.core.fused import fused
from hfkv.core.pieces import Piece
from hfkv.core.record import dataclass
from hfkv.core.roles import decoder_layer, role_of

__all__ = ["POSITIONS", "Portion", "in_roles", "portions_of"]

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
_MXFP4 = re.compile(r"(?:^|\.)experts\.(gate_up|down)_proj_(blocks|scales|bias)$")
_MXFP4_GROUP = 32
_EXPERT = ".experts.{}."
# What a tensor of a layer has at least to be told apart: smaller ones are never large blocks.
_TOLD_APART = 2**16
_SHARED = re.compile(r"(?:^|[._])shared_(?:expert|mlp)")
_OUTPUTS = r"(?:o_proj|out_proj|down_proj|dense_4h_to_h|dense|c_proj|fc2|wo|w2)$"
_ROWS = re.compile(r"(?:^|\.)" + _OUTPUTS)
_KEYS_VALUES = re.compile(r"(?:^|\.)(?:k_proj|v_proj|kv_proj|key|value|wk|wv)$")
_FUSED = re.compile(r"(?:^|\.)(?:qkv_proj|query_key_value|wqkv|c_attn|qkv)$", re.IGNORECASE)
# When the modules of a layer are made: attention first, routed experts last, outputs after inputs.
# Source: vLLM 0.19, model_executor/models/deepseek_v2.py, llama.py and siglip.py.
_ATTENTION = r"(?:attn|attention|mixer|mamba)\w*\.(?:.*\.)?"
_TURNS = tuple(
    (turn, re.compile(pattern))
    for turn, pattern in (
        (0, _ATTENTION + r"(?:qkv_proj|in_proj\w*)$"),
        (1, _ATTENTION + r"fused_qkv_a_proj$"),
        (2, _ATTENTION + r"q_b_proj$"),
        (3, _ATTENTION + r"kv_b_proj$"),
        (5, _ATTENTION + _OUTPUTS),
        (4, _ATTENTION),
        (9, r"(?:^|\.)experts\.(?:w2|down_proj)$"),
        (8, r"(?:^|\.)experts\."),
        (7, r"(?:^|\.)" + _OUTPUTS),
        (6, ""),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Bytes of one role that are shared out alike.

    `cut` is evenly, copied, by-kv-heads or fused (queries, keys and values in one matrix).
    `layers` are the decoder layers they belong to, in equal parts; outside of layers
    `stage` is first, last, ends (both: a tied embedding) or all. `rows` are those of a
    vocabulary table, 0 for anything else. `routed` experts are those of which a token uses a
    few: not shared ones, and not their router. `matrix` is which of mxfp4 experts' it is.
    Engines keep them as `copies` tensors, which have in them all portions of one `parameter`
    ("": too small to matter), and make those of a layer in the order of their `turn`. The role
    is one of the contract's or POSITIONS.
    """

    role: str
    bytes: int
    cut: str = "evenly"
    stage: str = "all"
    layers: tuple[int, ...] = ()
    rows: int = 0
    routed: bool = False
    matrix: ExpertMatrix | None = None
    parameter: str = ""
    copies: int = 1
    turn: int = 0


def portions_of(pieces: Iterable[Piece], *, tied: bool) -> tuple[Portion, ...]:
    """Return the portions of tensors; those alike are one."""
    known = tuple(pieces)
    mxfp4 = any(_MXFP4.search(p.stored.group.name) for p in known if p.stored.key == "blocks")
    sums: Counter[Portion] = Counter()
    for piece in known:
        sums[_kind(piece, tied=tied, mxfp4=mxfp4)] += piece.bytes
    return tuple(replace(kind, bytes=size) for kind, size in sums.items())


def _kind(piece: Piece, *, tied: bool, mxfp4: bool) -> Portion:
    group, role = piece.stored.group, piece.role
    module, suffix = piece.stored.module, piece.stored.key
    kind = Portion(role=role, bytes=0, cut=_cut(role, module, suffix), **_parameter(piece))
    if role != "mtp" and decoder_layer(group.name):
        # a group that reaches into the next-token layers was split: these are the model's own
        own = len(group.layers) * piece.count // group.count
        routed = role == "experts" and not (_SHARED.search(module) or _ROUTER.search(module))
        matrix = _matrix(group) if mxfp4 else None
        return replace(kind, layers=group.layers[:own], routed=routed, matrix=matrix)
    stages = {"embedding": "ends" if tied else "first"}
    stages |= dict.fromkeys(("lm_head", "norm", "mtp"), "last")
    table = role in ("embedding", "lm_head") and len(group.shape) == 2
    rows = group.shape[0] if table and kind.cut == "evenly" else 0
    return replace(kind, stage=stages.get(role, "all"), rows=rows)


def _parameter(piece: Piece) -> dict[str, Any]:
    """Return what engines call the tensors that these are a part of, and how many there are."""
    group, module = piece.stored.group, piece.stored.module
    copies = piece.count
    if _EXPERT in f".{module}." and group.layers:
        copies = max(1, len(group.layers) * piece.count // group.count)
    if piece.bytes < _TOLD_APART * copies:
        return {}
    name = fused(module)
    turn = next(turn for turn, pattern in _TURNS if pattern.search(name))
    return {"parameter": f"{name}.{piece.stored.key}", "copies": copies, "turn": turn}


def _matrix(group: TensorGroup) -> ExpertMatrix | None:
    """Return which matrix of gpt-oss's: [experts, rows, columns / 32 (, 16 bytes)], or its bias."""
    found = _MXFP4.search(group.name)
    if found is None or len(group.shape) < (2 if found[2] == "bias" else 3):
        return None
    down, part = found[1] == "down", found[2]
    rows = group.shape[1]
    columns = 0 if part == "bias" else group.shape[2] * _MXFP4_GROUP
    hidden, inner = (rows, columns) if down else (columns, rows // 2)
    if not (hidden if down else inner) or (part != "bias" and not hidden * inner):
        return None  # nothing to lay out
    return ExpertMatrix(hidden=hidden, inner=inner, down=down, part=part)


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

    Tables that an engine builds stay as they are; what was mxfp4 is no longer, and how an
    estimate is cut into tensors is not known.
    """
    known = tuple(portions)
    sizes = {**sizes, POSITIONS: sum(p.bytes for p in known if p.role == POSITIONS)}
    totals: Counter[str] = Counter()
    for portion in known:
        totals[portion.role] += portion.bytes
    return tuple(
        replace(p, bytes=p.bytes * sizes[p.role] // totals[p.role], matrix=None, parameter="")
        for p in known
        if p.role in sizes
    )
