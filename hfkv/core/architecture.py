"""ModelFiles → Architecture: every layer, what it keeps, and how sure that is."""

from __future__ import annotations

from typing import Any

from hfkv.core.config import Config, Log, known_model_types
from hfkv.core.descend import decoder_part
from hfkv.core.dtypes import config_dtype
from hfkv.core.families.encoder_decoder import CROSSING, add_cross, source_positions
from hfkv.core.families.family import Family, read_layers
from hfkv.core.families.irregular import PROMPT_KEPT
from hfkv.core.families.registry import family_of
from hfkv.core.files import ModelFiles
from hfkv.core.readings import Confidence, Reading
from hfkv.core.record import dataclass
from hfkv.core.ropes import Stretch, long_rope_start, stretch_of
from hfkv.core.standing import Standing, class_name, encodes, likeness, standing_of
from hfkv.core.stores import Fixed, Grows, Layer, LayerKind, Role
from hfkv.errors import MalformedError, UnsupportedError

__all__ = ["Architecture", "Experts", "read_architecture"]


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
    none. `kind`, `attention` and `mtp_layers` are None where nothing is known of the layers.
    `source_tokens` is how many positions cross-attention holds: 0 when there is no
    cross-attention, None when nothing states it. `simple` holds what the simple formula
    would multiply: (layers, KV heads, head_dim). `text_model_type` is the decoder's own;
    `broadcast_heads` is Falcon's `new_decoder_architecture`, which transformers caches
    wide; `state_dtype` is the format the file asks recurrent states to be kept in, and
    `expanded_head_dim` the width of a head once its latent is unpacked; `stated_window` is
    the file's sliding window, in use or not; `original_max_context` is the length that
    LongRoPE was made from (None without it), and `stretch` what other ropes make of the
    maximum; `remote_code` says that the
    model_type needs code from its own repository. `layers` is empty when `confidence` is
    UNKNOWN, and `from_tensors` where no config could be read and the tensors' shapes gave
    them; `doubts` are sentences that explain any confidence below DECLARED; `unread` are
    suspicious keys nobody read.
    """

    class_name: str | None
    model_type: str | None
    family: str | None
    kind: str | None
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
    attention: str | None
    confidence: Confidence
    doubts: tuple[str, ...] = ()
    experts: Experts | None = None
    compute_dtype: str | None = None
    compute_dtype_source: str = "unknown"
    source_tokens: int | None = 0
    simple: tuple[int, int, int] | None = None
    mtp_layers: int | None = 0
    tie_word_embeddings: bool | None = None
    text_model_type: str | None = None
    broadcast_heads: bool = False
    state_dtype: str | None = None
    expanded_head_dim: int | None = None
    stated_window: int | None = None
    original_max_context: int | None = None
    stretch: Stretch = Stretch()
    remote_code: bool = False
    readings: tuple[Reading, ...] = ()
    unread: tuple[str, ...] = ()
    from_tensors: bool = False


def read_architecture(files: ModelFiles) -> Architecture:
    """Read the architecture from config.json; never raises UnsupportedError.

    A config that cannot be read honestly gives confidence UNKNOWN, no layers and a doubt
    that says why. Raises MalformedError for a config that contradicts itself or JSON types
    that make no sense.
    """
    if files.config is None:
        return _without_config(files)
    root = Config(files.config, log=Log(files.config_name))
    text = decoder_part(root)
    like = likeness(root) if text.path == "" and not _is_known(text) else None
    if like is not None:
        root = Config(files.config, model_type=like, log=Log(files.config_name))
        text = decoder_part(root)
    family = family_of(text.model_type)
    if family is not None and family.aliases:
        text = text.spelled(family.aliases)
    try:
        layers = _layers(root, text, family)
    except UnsupportedError as error:
        return _unknown(str(error), root, text, hint=error.hint)
    plain = all(layer.kind is LayerKind.FULL for layer in layers)
    standing = standing_of(root, text, known=_is_known(text), like=like, plain=plain)
    return _known(root, text, family, layers, standing)


def _is_known(text: Config) -> bool:
    return family_of(text.model_type) is not None or text.model_type in known_model_types()


def _layers(root: Config, text: Config, family: Family | None) -> tuple[Layer, ...]:
    wrapped = text.path.startswith("decoder") and root.values.get("is_encoder_decoder") is True
    if root.model_type in CROSSING or (wrapped and root.model_type not in known_model_types()):
        return add_cross(text, family)
    if not _is_known(text) and encodes(root):
        return (Layer(kind=LayerKind.NONE),) * (text.positive("num_hidden_layers") or 1)
    return read_layers(text, family)


def _known(
    root: Config,
    text: Config,
    family: Family | None,
    layers: tuple[Layer, ...],
    standing: Standing,
) -> Architecture:
    stores = [layer.attention for layer in layers if layer.attention]
    crossing = any(s.role is Role.CROSS for layer in layers for s in layer.stores)
    dtype, dtype_source = _compute_dtype(root, text)
    latent = bool(stores) and all(s.role is Role.LATENT for s in stores)
    return Architecture(
        class_name=class_name(root),
        model_type=_stated_type(root),
        family=family.name if family else (text.model_type if _is_known(text) else None),
        kind=_kind(family, layers, crossing=crossing),
        layers=layers,
        num_hidden_layers=len(layers),
        hidden_size=text.positive("hidden_size"),
        vocab_size=text.positive("vocab_size") or root.positive("vocab_size"),
        max_context=_max_context(root, text),
        num_attention_heads=_same({x.heads for x in layers if x.heads}),
        num_key_value_heads=text.positive("num_key_value_heads")
        if latent
        else _same({s.heads or 1 for s in stores}),
        head_dim=None if latent else _same({s.key for s in stores}),
        v_head_dim=text.positive("v_head_dim") if latent else _same({s.value for s in stores}),
        sliding_window=_same({s.window for s in stores if s.window and not s.chunked}),
        attention=_attention_name(layers),
        confidence=standing.confidence,
        doubts=standing.doubts,
        experts=_experts(text),
        compute_dtype=dtype,
        compute_dtype_source=dtype_source,
        source_tokens=source_positions(root, text) if crossing else 0,
        simple=_simple(text, len(layers)),
        mtp_layers=text.positive("num_mtp_layers") or 0,
        tie_word_embeddings=_tied(root, text),
        text_model_type=text.model_type,
        broadcast_heads=text.raw("new_decoder_architecture") is True,
        state_dtype=_state_dtype(text),
        expanded_head_dim=_expanded_head_dim(text) if latent else None,
        stated_window=_stated_window(text),
        original_max_context=long_rope_start(text, _max_context(root, text)),
        stretch=stretch_of(text, _max_context(root, text)),
        remote_code=isinstance(root.values.get("auto_map"), dict)
        and _stated_type(root) not in known_model_types(),
        readings=tuple(text.log.readings.values()),
        unread=standing.unread,
    )


def _stated_type(root: Config) -> str | None:
    value = root.values.get("model_type")
    return value if isinstance(value, str) else None


def _stated_window(text: Config) -> int | None:
    own = text.model_type in PROMPT_KEPT  # its class has a window that files leave out
    value = text.raw("sliding_window") if own else text.given("sliding_window")
    return value if isinstance(value, int) and value > 0 else None


def _same(values: set[Any]) -> Any | None:
    """Return the only value of a set, None when there are none or several."""
    return next(iter(values)) if len(values) == 1 else None


def _kind(family: Family | None, layers: tuple[Layer, ...], *, crossing: bool) -> str:
    if not any(layer.stores for layer in layers):
        return "encoder" if family is None or family.kind == "encoder" else "other"
    wholly = crossing and not any(layer.kind is LayerKind.CROSS for layer in layers)
    return "encoder-decoder" if wholly else "decoder"


def _max_context(root: Config, text: Config) -> int | None:
    """Return the longest context the config states, in tokens."""
    # Command-R states 8,192 trained positions, and 131,072 as its maximum
    own = {"whisper": "max_target_positions", "cohere": "model_max_length"}
    if text.model_type in own and (found := text.positive(own[text.model_type])):
        return found
    return text.positive("max_context") or root.positive("max_context")


def _attention_name(layers: tuple[Layer, ...]) -> str:
    names = set()
    for layer in layers:
        for store in layer.stores:
            if isinstance(store, Fixed) or store.role not in (Role.KV, Role.LATENT, Role.CROSS):
                continue
            names.add(_sharing(layer, store))
    return (_same(names) or "mixed") if names else "none"


def _sharing(layer: Layer, store: Grows) -> str:
    if store.role is Role.LATENT:
        return "MLA"
    heads = store.heads or 1
    if heads == layer.heads:
        return "MHA"
    return "MQA" if heads == 1 else "GQA"


def _experts(text: Config) -> Experts | None:
    total, active = _largest(text, "num_experts"), _largest(text, "num_experts_per_tok")
    return Experts(total=total, active=active) if total and total > 1 else None


def _largest(text: Config, name: str) -> int | None:
    """Return a count that some families list per layer (Hunyuan), as its maximum."""
    value = text.raw(name)
    if isinstance(value, list):
        return max(text.counts(name) or [0]) or None
    return text.positive(name)


def _compute_dtype(root: Config, text: Config) -> tuple[str | None, str]:
    """Return the dtype the model computes in: outer key, then nested."""
    for part in (root, text):
        value = part.given("dtype")
        found = config_dtype(value, where=part.where("dtype"))
        if found is not None:
            key = next(k for k in part.spellings("dtype") if part.values.get(k) is not None)
            return found.name, part.where(key)
    return None, "unknown"


def _state_dtype(text: Config) -> str | None:
    """Return the format recurrent states are asked to be kept in (Qwen3.5, Nemotron-H)."""
    for key in ("mamba_ssm_dtype", "mamba_ssm_cache_dtype"):
        if found := config_dtype(text.given(key), where=text.where(key)):
            return found.name
    return None


def _expanded_head_dim(text: Config) -> int | None:
    parts = (text.count("qk_nope_head_dim"), text.count("qk_rope_head_dim"))
    return sum(part or 0 for part in parts) or None


def _tied(root: Config, text: Config) -> bool | None:
    for part in (root, text):
        value = part.values.get("tie_word_embeddings")
        if isinstance(value, bool):
            return value
    value = text.defaults.get("tie_word_embeddings")
    return value if isinstance(value, bool) else None


def _simple(text: Config, layers: int) -> tuple[int, int, int] | None:
    """Return what most calculators would multiply: layers, KV heads, head_dim."""
    heads = text.raw("num_attention_heads")
    heads = heads if isinstance(heads, int) and heads > 0 else None
    raw_kv = text.raw("num_key_value_heads")
    kv_heads = raw_kv if isinstance(raw_kv, int) and raw_kv > 0 else heads
    dim, hidden = text.raw("head_dim"), text.positive("hidden_size")
    if not isinstance(dim, int) or dim <= 0:
        dim = hidden // heads if hidden and heads else None
    count = text.raw("num_hidden_layers")
    count = count if isinstance(count, int) and 0 < count <= 10_000 else layers
    return (count, kv_heads, dim) if kv_heads and dim else None


def _without_config(files: ModelFiles) -> Architecture:
    """Return what the Hub shows of a config that may not be read, where it shows anything."""
    shown = files.hub.get("config")
    root = Config(shown if isinstance(shown, dict) else {}, log=Log())
    if all(problem.code != "gated" for problem in files.problems):
        return _unknown("there is no config.json to read", root, None)
    hint = "get access to the repository, or give its config.json with --config FILE"
    return _unknown("its config.json is behind a gate", root, None, hint=hint)


def _unknown(
    reason: str, root: Config, text: Config | None, *, hint: str | None = None
) -> Architecture:
    part = text or root
    return Architecture(
        class_name=class_name(root),
        model_type=_stated_type(root),
        family=None,
        kind=None,
        layers=(),
        num_hidden_layers=None,
        hidden_size=_quietly(part, "hidden_size"),
        vocab_size=_quietly(part, "vocab_size"),
        max_context=_quietly(part, "max_context"),
        num_attention_heads=None,
        num_key_value_heads=None,
        head_dim=None,
        v_head_dim=None,
        sliding_window=None,
        attention=None,
        mtp_layers=None,
        confidence=Confidence.UNKNOWN,
        doubts=(reason,) if hint is None else (reason, hint),
        source_tokens=None,
        readings=tuple(part.log.readings.values()),
    )


def _quietly(part: Config, name: str) -> int | None:
    """Return a count that is only shown: as the file states it, never a class default."""
    if part.given(name) is None:
        return None
    try:
        return part.positive(name)
    except MalformedError:
        return None
