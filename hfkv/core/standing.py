"""How sure a reading of a config can be before any tensor is looked at.

A known model_type is declared; an unknown one is inferred, by its class name where
transformers has that class, else as ordinary attention; anything that hints at memory which
was not understood makes it doubtful.
"""

from __future__ import annotations

import re
from functools import cache

from hfkv.core.config import ALIASES, Config, class_defaults
from hfkv.core.readings import Confidence
from hfkv.core.record import dataclass

__all__ = ["Standing", "class_name", "encodes", "likeness", "standing_of"]

# Keys that, unread in an unknown model type, may mean memory the generic reading missed. Text,
# like what follows: most files have no such keys, and compiling takes longer than all the rest.
_SUSPICIOUS = (
    r"mamba|ssm|(^|_)state(_|$)|state_(size|dim)|conv_kernel|conv1d|multi_query|recurr|v_head_dim"
    r"|kv_lora|kv_rank|linear_attn|linear_attention|lightning|retention|rwkv|hybrid|sliding|window"
    r"|index_topk|indexer|attn_type|attention_(type|pattern)|layer_(pattern|types?)|kv_shar"
    r"|shared?_kv|kv_(group|source|layers|reuse)|cla_|use_cla|cross_(layer|attn|attention|decoder)|yoco"
    r"|chunk_size|local_(attention|attn|layers)|block_(types|configs)|global_(attn|head|layers)"
    r"|num_global_(key|kv|head)|attn_layer|full_attn|compress|delta|latent|swa_|per_layer"
    r"|decay|expand_[kv]|short_conv|feature_map|(value|v|qk)_(head_)?dim|head_dim_v|low_rank|mla"
    r"|(ut|total)_(ut_)?steps|(^|_)loops?(_|$)|self_decoder|nsa_|lru_|conv_layers|memory_tokens"
)
# … except these, which never change a cache.
_HARMLESS = frozenset(
    {
        "chunk_size_feed_forward",
        "output_hidden_states",
        "initializer_range",
        "add_cross_attention",
        "mlp_only_layers",
        "cross_attention_hidden_size",
        "scale_attn_by_inverse_layer_idx",
    }
)
# Parts that describe other models: a vision tower has windows of its own.
_TOWER = r"vision|visual|audio|image|speech|rope_scaling|quantization|auto_map|mlp"
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


def standing_of(
    root: Config, text: Config, *, known: bool, like: str | None, plain: bool
) -> Standing:
    """Return how sure the reading is, with a sentence for everything below declared.

    `plain` says that every layer was read as ordinary attention: only then do keys that
    hint at other memory speak against a known type that brings code of its own.
    """
    name = root.values.get("model_type")
    name = name if isinstance(name, str) else "without a name"
    if known and like is None and plain and _remote(root):
        return _of_remote(text)
    if like is not None:
        way = f"read as {like}, by its class name {class_name(root)}"
        sentence = f"model_type {name:.60} is unknown; it was {way}"
        return Standing(confidence=Confidence.INFERRED, doubts=(sentence,))
    if known:
        return _of_known(text)
    unread = _unread(text)
    doubts = [f"model_type {name:.60} is unknown; it was read the generic way"]
    doubts += _alarm(unread)
    doubts += _disagreeing(text)
    doubts += _windows(text)
    if root.values.get("is_encoder_decoder") is True:
        doubts.append("is_encoder_decoder is true, and a cross-attention cache is not counted")
    sure = len(doubts) == 1
    return Standing(
        confidence=Confidence.INFERRED if sure else Confidence.DOUBTFUL,
        doubts=tuple(doubts),
        unread=unread,
    )


def _remote(root: Config) -> bool:
    """Return whether the file brings code of its own, which its model_type may not describe."""
    return isinstance(root.values.get("auto_map"), dict)


def _of_remote(text: Config) -> Standing:
    """Doubt a known type with code of its own when keys of it hint at other memory."""
    unread = tuple(key for key in _unread(text) if key.split(".")[-1] not in text.defaults)
    sure = Confidence.DOUBTFUL if unread else Confidence.DECLARED
    return Standing(confidence=sure, doubts=tuple(_alarm(unread)), unread=unread)


def _alarm(unread: tuple[str, ...]) -> list[str]:
    keys = ", ".join(f"{key:.60}" for key in unread[:5])
    return [f"these keys look like memory and were not understood: {keys}"] if unread else []


def _disagreeing(text: Config) -> list[str]:
    """Say where two spellings of one field disagree; the first was taken."""
    found = []
    for name in ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"):
        stated = {
            key: value
            for key in (name, *ALIASES[name])
            if isinstance(value := text.values.get(key), int)
        }
        if len(set(stated.values())) > 1:
            pairs = ", ".join(f"{key} {value}" for key, value in list(stated.items())[:3])
            found.append(f"these say the same thing differently: {pairs:.120}")
    return found


def _windows(text: Config) -> list[str]:
    """Say when a window was taken for all layers because nothing says for which it is."""
    value = text.raw("sliding_window")
    if text.values.get("use_sliding_window") is False or not isinstance(value, int) or value < 1:
        return []
    named = ("layer_types", "sliding_window_pattern", "full_attention_interval")
    if any(text.given(name) is not None for name in named):
        return []
    return ["sliding_window is stated without its layers, and was taken for all of them"]


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
    off = {"window"} if text.values.get("use_sliding_window") is False else set()
    off |= {"cla_"} if text.values.get("use_cla") is False else set()
    latent = text.path + "kv_lora_rank" in text.log.seen and text.values.get("kv_lora_rank")
    off |= {"v_head_dim", "qk_nope", "qk_head_dim", "q_lora"} if latent else set()
    found = []
    for key, value in text.values.items():
        if value in (None, False, 0, -1) or key in _HARMLESS or text.path + key in text.log.seen:
            continue
        if any(part in key for part in off) or re.search(_TOWER, key):
            continue
        if re.search(_SUSPICIOUS, key) or _per_layer(text, value):
            found.append(text.path + key)
    return tuple(sorted(found)[:20])


def _per_layer(text: Config, value: object) -> bool:
    """Return whether an unread value has one number or name for each of several layers."""
    count = text.values.get("num_hidden_layers")
    if not isinstance(value, list) or len(value) != count or len(value) < 4:
        return False
    return len({str(entry) for entry in value[:1000]}) > 1
