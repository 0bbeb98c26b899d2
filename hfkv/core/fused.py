"""Which tensors of a checkpoint serving engines keep as one: a matrix for each of these.

Source: vLLM 0.19, model_executor/layers/linear.py (QKVParallelLinear, MergedColumnParallelLinear),
fused_moe/layer.py (`w13_weight`, `w2_weight` of all experts), models/deepseek_v2.py
(`fused_qkv_a_proj`) and models/qwen3_5.py (`in_proj_qkvz`, `in_proj_ba`); SGLang has the same.
"""

from __future__ import annotations

import re

__all__ = ["fused"]

_EXPERTS = r"((?:^|\.)experts)\.\{\}\."
_FUSED = tuple(
    (re.compile(pattern + "$"), name)
    for pattern, name in (
        (_EXPERTS + r"(?:gate_proj|up_proj|w1|w3)", r"\1.w13"),
        (_EXPERTS + r"(?:down_proj|w2)", r"\1.w2"),
        (r"((?:^|\.))(?:q_proj|k_proj|v_proj|wq|wk|wv)", r"\1qkv_proj"),
        (r"((?:^|\.))(?:gate_proj|up_proj|w1|w3)", r"\1gate_up_proj"),
        (r"((?:^|\.))(?:q_a_proj|kv_a_proj_with_mqa)", r"\1fused_qkv_a_proj"),
        (r"((?:^|\.))in_proj_(?:qkv|z)", r"\1in_proj_qkvz"),
        (r"((?:^|\.))in_proj_[ab]", r"\1in_proj_ba"),
    )
)


def fused(module: str) -> str:
    """Return the module that an engine makes of this one and its neighbours.

    >>> fused("model.layers.{}.self_attn.k_proj")
    'model.layers.{}.self_attn.qkv_proj'
    >>> fused("model.layers.{}.mlp.experts.{}.up_proj")
    'model.layers.{}.mlp.experts.w13'
    """
    for pattern, name in _FUSED:
        found, count = pattern.subn(name, module)
        if count:
            return found
    return module
