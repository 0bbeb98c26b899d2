"""How sure a reading of a config can be before any tensor is looked at.

A known model_type is declared; an unknown one is inferred, by its class name where
transformers has that class, else as ordinary attention; anything that hints at memory which
was not understood makes it doubtful.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from hfkv.core.config import Config, class_defaults
from hfkv.core.readings import Confidence

__all__ = ["Standing", "class_name", "encodes", "likeness", "standing_of"]

# Keys that, unread in an unknown model type, may mean memory the generic reading missed.
_SUSPICIOUS = re.compile(
    r"mamba|ssm|(^|_)state(_|$)|state_(size|dim)|conv_kernel|conv1d|multi_query|recurr|v_head_dim"
    r"|kv_lora|kv_rank|linear_attn|linear_attention|lightning|retention|rwkv|hybrid|sliding|window"
    r"|index_topk|indexer|attn_type|attention_(type|pattern)|layer_(pattern|types?)|kv_shar"
    r"|shared?_kv|kv_(group|source|layers|reuse)|cla_|cross_(layer|attn|attention|decoder)|yoco"
    r"|chunk_size|local_(attention|attn|layers)|block_(types|configs)|global_(attn|head|layers)"
    r"|num_global_(key|kv|head)|attn_layer|full_attn|compress|delta|latent|swa_|per_layer"
)
# … except these, which never change a cache.
_HARMLESS = frozenset(
    {
        "chunk_size_feed_forward",
        "output_hidden_states",
        "initializer_range",
        "add_cross_attention",
        "cross_attention_hidden_size",
        "scale_attn_by_inverse_layer_idx",
    }
)
_ENCODER_HEADS = ("ForMaskedLM", "ForQuestionAnswering", "ForImageClassification")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The confidence, the sentences that explain it, and the keys nobody understood."""

    confidence: Confidence
    doubts: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def class_name(root: Config) -> str | None:
    """Return the first of `architectures`, or None."""
    names = root.values.get("architectures")
    if isinstance(names, list) and names and isinstance(names[0], str):
        return names[0]
    return None


@cache
def _types_by_class() -> dict[str, str]:
    found: dict[str, str] = {}
    for model_type, entry in class_defaults().items():
        for model in entry.get("models", ()):
            found.setdefault(model, model_type)
    return found


def likeness(root: Config) -> str | None:
    """Return the model_type whose class the file names, for a model_type nobody knows."""
    return _types_by_class().get(class_name(root) or "")


def encodes(root: Config) -> bool:
    """Return whether an unknown model is an encoder: by its head, or by seeing only patches."""
    if (class_name(root) or "").endswith(_ENCODER_HEADS):
        return True
    values = root.values
    return "patch_size" in values and "image_size" in values and "vocab_size" not in values


def standing_of(root: Config, text: Config, *, known: bool, like: str | None) -> Standing:
    """Return how sure the reading is, with a sentence for everything below declared."""
    name = root.values.get("model_type")
    name = name if isinstance(name, str) else "without a name"
    if like is not None:
        way = f"read as {like}, by its class name {class_name(root)}"
        sentence = f"model_type {name:.60} is unknown; it was {way}"
        return Standing(confidence=Confidence.INFERRED, doubts=(sentence,))
    if known:
        return _of_known(text)
    unread = _unread(text)
    doubts = [f"model_type {name:.60} is unknown; it was read as ordinary attention"]
    if unread:
        keys = ", ".join(f"{key:.60}" for key in unread[:5])
        doubts.append(f"these keys look like memory and were not understood: {keys}")
    if root.values.get("is_encoder_decoder") is True:
        doubts.append("is_encoder_decoder is true, and a cross-attention cache is not counted")
    sure = len(doubts) == 1
    return Standing(
        confidence=Confidence.INFERRED if sure else Confidence.DOUBTFUL,
        doubts=tuple(doubts),
        unread=unread,
    )


def _of_known(text: Config) -> Standing:
    """Doubt a whole file that states no geometry: its class defaults are rarely meant."""
    stated = text.given("num_hidden_layers"), text.given("hidden_size"), text.given("layer_types")
    if text.path or any(value is not None for value in stated):
        return Standing(confidence=Confidence.DECLARED)
    sentence = (
        f"the file states neither layers nor hidden size: the defaults of {text.model_type} "
        "were used"
    )
    return Standing(confidence=Confidence.DOUBTFUL, doubts=(sentence,))


def _unread(text: Config) -> tuple[str, ...]:
    """Return keys of an unknown model type that look like memory and that nobody read."""
    found = []
    switched_off = text.values.get("use_sliding_window") is False
    for key, value in text.values.items():
        if value in (None, False, 0) or key in _HARMLESS or key.endswith("_config"):
            continue
        if switched_off and "window" in key:
            continue
        if text.path + key not in text.log.seen and _SUSPICIOUS.search(key):
            found.append(text.path + key)
    return tuple(sorted(found)[:20])
