"""ModelFiles → Architecture: every layer, what it keeps, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

from hfkv.core.readings import Confidence, Reading
from hfkv.core.stores import Layer

__all__ = ["Architecture", "Experts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Routed experts of one MoE layer, and how many a token uses."""

    total: int
    active: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What the model is, as read from its config (and later compared with its tensors).

    `kind` is decoder, encoder-decoder, encoder or other. Head counts and dims are None
    where they differ by layer or do not exist. `attention` is MHA, MQA, GQA, MLA, mixed or
    none. `source_tokens` is how many positions cross-attention holds (0: none).
    `layers` is empty when `confidence` is UNKNOWN; `doubts` are sentences that explain any
    confidence below DECLARED; `unread` are suspicious keys nobody read.
    """

    class_name: str | None
    model_type: str | None
    family: str | None
    kind: str
    layers: tuple[Layer, ...]
    num_hidden_layers: int | None
    hidden_size: int | None
    vocab_size: int | None
    max_context: int | None
    num_attention_heads: int | None
    num_key_value_heads: int | None
    head_dim: int | None
    v_head_dim: int | None
    sliding_window: int | None
    attention: str
    confidence: Confidence
    doubts: tuple[str, ...] = ()
    experts: Experts | None = None
    compute_dtype: str | None = None
    compute_dtype_source: str = "unknown"
    source_tokens: int = 0
    mtp_layers: int = 0
    tie_word_embeddings: bool | None = None
    readings: tuple[Reading, ...] = ()
    unread: tuple[str, ...] = ()
