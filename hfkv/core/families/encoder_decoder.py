"""Encoder-decoders, decoders with cross-attention, and encoders that keep nothing.

A decoder layer keeps its own keys and values and, once per sequence, those of the source
positions: 2 x heads x head_dim x source length. Source: transformers 5.24 EncoderDecoderCache.
"""

from __future__ import annotations

from hfkv.core import kinds
from hfkv.core.config import Config
from hfkv.core.families.family import Family, plain_layers, read_layers
from hfkv.core.patterns import MAX_LAYERS, layer_count
from hfkv.core.stores import Grows, Layer, LayerKind, Role
from hfkv.errors import MalformedError

__all__ = ["CROSSING", "ENCODER_DECODER", "add_cross", "source_positions"]

_HF = "transformers 5.24, {}"

# Wrappers whose decoder part attends to an encoder in every layer.
CROSSING = frozenset(
    {
        "blip",
        "canary",
        "dia",
        "encoder-decoder",
        "musicgen",
        "speech-encoder-decoder",
        "t5gemma",
        "t5gemma2",
        "vision-encoder-decoder",
    }
)

_LAYERS = ("decoder_layers", "num_decoder_layers", "decoder_num_hidden_layers")
_HEADS = ("decoder_attention_heads", "num_decoder_attention_heads", "decoder_num_attention_heads")


def _first(cfg: Config, names: tuple[str, ...]) -> int | None:
    """Return the first of several keys that the file states, else that the class fills in."""
    for name in names:
        if cfg.given(name) is not None:
            return cfg.positive(name)
    for name in names:
        value = cfg.positive(name)
        if value is not None:
            return value
    return None


def _decoder_layers(cfg: Config) -> int:
    """Return the number of decoder layers; T5 without the key has as many as its encoder."""
    if cfg.given("num_decoder_layers") is None and cfg.model_type in _T5:
        count = cfg.positive("num_layers") or layer_count(cfg)
    else:
        count = _first(cfg, _LAYERS) or layer_count(cfg)
    if count > MAX_LAYERS:
        raise MalformedError(
            f"{count} decoder layers; no model has more than {MAX_LAYERS}",
            where=cfg.where("decoder_layers"),
        )
    return count


def _decoder_attention(cfg: Config) -> tuple[int, int, int]:
    """Return (query heads, KV heads, head_dim) of the decoder."""
    heads = _first(cfg, _HEADS) or kinds.heads(cfg)
    kv_heads = cfg.positive("decoder_num_key_value_heads") or heads
    if cfg.model_type in _GROUPED:
        kv_heads = kinds.key_value_heads(cfg)
    dim = cfg.positive("head_dim")
    dim = dim or kinds.per_head(cfg, cfg.need("hidden_size"), heads, exact=False)
    cfg.note("num_attention_heads", heads, "decoder heads")
    cfg.note("num_key_value_heads", kv_heads, "decoder heads")
    cfg.note("head_dim", dim, "hidden_size / decoder heads")
    return heads, kv_heads, dim


def _decoder(cfg: Config) -> tuple[Layer, ...]:
    """Read a decoder that the file describes with `decoder_*` keys, without an encoder."""
    heads, kv_heads, dim = _decoder_attention(cfg)
    own = Grows(heads=kv_heads, key=dim, value=dim)
    return (Layer(kind=LayerKind.FULL, stores=(own,), heads=heads),) * _decoder_layers(cfg)


def _flat(cfg: Config) -> tuple[Layer, ...]:
    """Read an encoder-decoder whose file describes both halves side by side."""
    _heads, kv_heads, dim = _decoder_attention(cfg)
    cross = Grows(heads=kv_heads, key=dim, value=dim, role=Role.CROSS)
    return tuple(
        Layer(kind=layer.kind, stores=(*layer.stores, cross), heads=layer.heads)
        for layer in _decoder(cfg)
    )


def add_cross(cfg: Config, family: Family | None) -> tuple[Layer, ...]:
    """Return the layers of a wrapped decoder, each with the source positions it keeps."""
    own = family if family is None or family.kind == "decoder" else None
    layers = read_layers(cfg, own)
    crossed = []
    for i, layer in enumerate(layers):
        view = cfg.at(i)
        store = kinds.cross(
            view,
            count=view.positive("cross_num_key_value_heads"),
            dim=view.positive("cross_head_dim"),
        )
        crossed.append(Layer(kind=layer.kind, stores=(*layer.stores, store), heads=layer.heads))
    return tuple(crossed)


def _mllama(cfg: Config) -> tuple[Layer, ...]:
    """Mllama: the layers in `cross_attention_layers` keep image positions and no text.

    Source: transformers 5.24 modeling_mllama.py.
    """
    chosen = set(cfg.counts("cross_attention_layers") or (3, 8, 13, 18, 23, 28, 33, 38))
    layers = list(plain_layers(cfg))
    for i, layer in enumerate(layers):
        if i in chosen:
            store = kinds.cross(cfg.at(i))
            layers[i] = Layer(kind=LayerKind.CROSS, stores=(store,), heads=layer.heads)
    return tuple(layers)


def _encoder(cfg: Config) -> tuple[Layer, ...]:
    """Read an encoder (nothing is kept), or the same class used as a decoder."""
    if cfg.flag("is_decoder"):
        return plain_layers(cfg)
    return (kinds.nothing(),) * layer_count(cfg)


def source_positions(root: Config, text: Config) -> int | None:
    """Return the model's full source length in positions, or None where nothing states it.

    Whisper: `max_source_positions`. T5 has relative positions: `n_positions`, else the 512
    it was trained with (T5 paper, section 3.1.1). BART-like: `max_position_embeddings`.
    Mllama: one image of `max_num_tiles` x (patches + 1).
    """
    vision = root.part("vision_config") if root.model_type == "mllama" else None
    if vision is not None:
        side = (vision.positive("image_size") or 448) // (vision.positive("patch_size") or 14)
        return (vision.positive("max_num_tiles") or 4) * (side * side + 1)
    if text.model_type in _T5:
        return text.positive("n_positions") or 512
    stated = text.positive("max_source_positions")
    if stated and text.model_type == "speech_to_text":
        return stated >> (text.count("num_conv_layers") or 2)  # each halves the length
    if stated:
        return stated
    if text.model_type in _BART_LIKE:
        return text.positive("max_position_embeddings")
    return _encoder_positions(root)


def _encoder_positions(root: Config) -> int | None:
    for name in ("encoder", "encoder_config", "text_encoder"):
        part = root.part(name)
        found = part.positive("max_context") if part else None
        if found:
            return found
    return None


_T5 = ("t5", "mt5", "umt5", "longt5", "udop", "pop2piano", "switch_transformers")
_BART_LIKE = (
    "bart",
    "bigbird_pegasus",
    "blenderbot",
    "blenderbot-small",
    "fsmt",
    "m2m_100",
    "marian",
    "mbart",
    "mvp",
    "nllb-moe",
    "pegasus",
    "pegasus_x",
    "plbart",
    "prophetnet",
)
_SPEECH = (
    "cohere_asr",
    "led",
    "moonshine",
    "moonshine_streaming",
    "seamless_m4t",
    "seamless_m4t_v2",
    "speech_to_text",
    "speecht5",
    "whisper",
)
# Encoder-decoders whose decoder has grouped heads under the plain key.
_GROUPED = ("cohere_asr",)
_ENCODERS = (
    "albert",
    "bert",
    "bert-generation",
    "big_bird",
    "camembert",
    "clip",
    "clip_text_model",
    "clip_vision_model",
    "convbert",
    "data2vec-text",
    "deberta",
    "deberta-v2",
    "distilbert",
    "electra",
    "ernie",
    "megatron-bert",
    "modernbert",
    "mpnet",
    "nomic_bert",
    "rembert",
    "roberta",
    "roberta-prelayernorm",
    "roc_bert",
    "roformer",
    "siglip",
    "vit",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
)

ENCODER_DECODER: tuple[Family, ...] = (
    Family(
        name="t5",
        model_types=_T5,
        source=_HF.format("modeling_t5.py"),
        whole=_flat,
        kind="encoder-decoder",
    ),
    Family(
        name="bart",
        model_types=_BART_LIKE,
        source=_HF.format("modeling_bart.py"),
        whole=_flat,
        kind="encoder-decoder",
    ),
    Family(
        name="whisper",
        model_types=_SPEECH,
        source=_HF.format("modeling_whisper.py"),
        whole=_flat,
        kind="encoder-decoder",
    ),
    Family(
        name="trocr",
        model_types=("trocr", "pp_formulanet_text"),
        source=_HF.format("modeling_trocr.py"),
        whole=_decoder,
    ),
    Family(
        name="mllama",
        model_types=("mllama_text_model",),
        source=_HF.format("modeling_mllama.py"),
        whole=_mllama,
    ),
    Family(
        name="encoder",
        model_types=_ENCODERS,
        source=_HF.format("modeling_bert.py"),
        whole=_encoder,
        kind="encoder",
    ),
)
