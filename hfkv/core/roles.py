"""Module name → what its tensors are for: the one table that knows naming habits.

Roles are those of the JSON contract. What mixes tokens counts as attention, whatever the
mechanism (softmax, state space, convolution, linear attention, RWKV time mixing); routed
and shared experts count as experts together with their router.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from hfkv.core.files import TensorGroup

__all__ = ["ROLES", "decoder_layer", "mtp_layers", "role_of", "tower_of"]

# Several readings ask for the same names: a model has some dozens, a hostile header 300,000.
_REMEMBERED = 100_000

ROLES = (
    "embedding",
    "attention",
    "mlp",
    "experts",
    "norm",
    "lm_head",
    "vision",
    "audio",
    "mtp",
    "quantization",
    "other",
)


class _Words:
    """Words (small patterns) that a component of a module's path is, the last or any of them.

    Plain ones are looked up: a pattern of all of them takes long to compile at each start.
    """

    def __init__(self, words: str, *, last: bool = False) -> None:
        every = words.split()
        self._plain = frozenset(word for word in every if word.isidentifier())
        others = "|".join(word for word in every if word not in self._plain)
        end = "$" if last else r"(?:\.|$)"
        self._others = re.compile(rf"(?:^|\.)(?:{others}){end}") if others else None
        self._last = last

    def search(self, module: str) -> bool:
        """Return whether a module has one of the words."""
        if self._last:
            found = module.rpartition(".")[2] in self._plain
        else:
            found = not self._plain.isdisjoint(module.split("."))
        return found or (self._others is not None and bool(self._others.search(module)))


def _any(words: str) -> _Words:
    """Match a module with one of these words as a path component."""
    return _Words(words)


def _last(words: str) -> _Words:
    """Match a module whose own name, the last component, is one of these."""
    return _Words(words, last=True)


# Towers, and what joins them to the text model.
_TOWERS: tuple[tuple[str, _Words | re.Pattern[str]], ...] = (
    (
        "audio",
        _any(
            r"""audio_\w+ audio embed_audio speech_\w+ sound_\w+ talker token2wav code2wav
            code_predictor"""
        ),
    ),
    (
        "vision",
        _any(
            r"""vision\w* visual\w* vit vpm resampler image_\w+ img_\w+ multi_modal_projector
            mm_\w+ embed_vision patch_embed\w* patch_merger merger mlp1 perceiver\w* vq_?model
            connector aligner qformer sam_model pixtral\w* siglip\w* clip\w*"""
        ),
    ),
    # Whisper's two input convolutions stand directly in its encoder
    ("audio", re.compile(r"(?:^|\.)encoder\.conv\d$")),
)

# First match wins. Names are lowered; the suffix (weight, bias, qweight …) is already cut.
_RULES: tuple[tuple[str, _Words | re.Pattern[str]], ...] = (
    ("norm", _last(r"norm\w* ln_\w+ ln\d? \w*layer_?norm\w* \w+_norm(?:_?\w)? [eh]norm rms_?norm")),
    (
        "lm_head",
        _last(
            r"""lm_head(?:\.linear)? embed_out output head proj_out output_layer unembed lm_output
            cls\.predictions(?:\..+)?"""
        ),
    ),
    ("lm_head", re.compile(r"^(?:model\.)?transformer\.ff_out$")),  # Molmo
    ("experts", _any(r"\w*experts?(?:_\w+)? router\w* moe\w* block_sparse_moe")),
    ("experts", _any(r"(?:mlp|ffn|mixer|feed_forward)\.(?:gate|wg)")),
    (
        "attention",
        _any(
            r"""\w*attn\w* \w*attention mamba\w* ssm conv short_conv self_conv time_mix\w*
            temporal_block token_mixer recurrent\w* att att_proj indexer\w* rwkv\w*"""
        ),
    ),
    (
        "mlp",
        _any(
            r"""mlp\w* ffn? feed_?forward\w* densereludense fc\d fc_\w+ c_fc intermediate
            channel_mix\w* up_proj down_proj gate_proj gate_up_proj ff_proj ff_out w[123] wi\w*
            per_layer_input_gate per_layer_projection"""
        ),
    ),
    ("mlp", re.compile(r"\.layer\.\{\}\.output\.dense$")),  # BERT
    ("attention", _any(r"mixer layer\.\{\}\.layer linear_\w+ gated_delta\w*")),
    (
        "embedding",
        _any(r"\w*embed\w* wte wpe shared emb per_layer_model_projection"),
    ),
    ("attention", _any(r"[qkvo]_proj qkv\w* wqkv w[qkvo] out_proj in_proj\w*")),
)


def tower_of(module: str) -> str | None:
    """Return vision or audio for a module of a tower, else None."""
    lowered = module.lower()
    return next((role for role, pattern in _TOWERS if pattern.search(lowered)), None)


@lru_cache(_REMEMBERED)
def role_of(module: str) -> str:
    """Return the role of a module by its name alone; mtp and quantization are not names."""
    lowered = module.lower()
    tower = tower_of(lowered)
    if tower:
        return tower
    return next((role for role, pattern in _RULES if pattern.search(lowered)), "other")


# The stack of decoder layers: the first number of the name is the layer.
_STACK = re.compile(r"^(?:[A-Za-z_]\w*\.)*(?:layers|layer|h|blocks|block)\.\{\}\.")
_MTP_OWN = re.compile(r"\.\{\}\.(?:eh_proj|enorm|hnorm|shared_head)\.")


@lru_cache(_REMEMBERED)
def decoder_layer(name: str) -> bool:
    """Return whether the first number in a template counts layers of the text decoder."""
    if not _STACK.match(name) or tower_of(name):
        return False
    head = name.split(".{}", 1)[0].split(".")
    # ChatGLM calls its decoder transformer.encoder
    encodes = "encoder" in head and head[:2] != ["transformer", "encoder"]
    return not encodes and not any(part.startswith("mtp") for part in head)


def mtp_layers(tensors: Iterable[TensorGroup], num_hidden_layers: int | None) -> frozenset[int]:
    """Return the next-token layers that stand behind the model's own, by index.

    A layer counts only when it has tensors that no layer of the model has (`eh_proj`,
    `enorm` …): a config that states too few layers must not turn real ones into extras.
    Where the number of layers is not known, only the names DeepSeek and GLM use count.
    """
    inside: set[str] = set()
    behind: dict[str, set[int]] = {}
    for group in tensors:
        if not group.layers or not decoder_layer(group.name):
            continue
        if num_hidden_layers is None:
            late = set(group.layers) if _MTP_OWN.search(group.name) else set()
        else:
            late = {layer for layer in group.layers if layer >= num_hidden_layers}
            if group.layers[0] < num_hidden_layers:
                inside.add(group.name)
        behind.setdefault(group.name, set()).update(late)
    own = (layers for name, layers in behind.items() if name not in inside)
    return frozenset().union(*own)
