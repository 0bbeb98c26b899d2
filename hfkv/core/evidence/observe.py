"""What the tensors of each decoder layer are, by part: key, value, latent, state, convolution.

Names are looked at here and nowhere else; what they mean for the cache is in `compare` and
`rebuild`. Quantized tensors are seen unpacked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import field

from hfkv.core.files import ModelFiles
from hfkv.core.quantization import Stored, read_scheme, unpack
from hfkv.core.record import dataclass
from hfkv.core.roles import decoder_layer, mtp_layers, role_of, tower_of

__all__ = ["Seen", "Stack", "encoder_depth", "observe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One tensor of a layer: its template, and its logical shape (out first)."""

    tensor: str
    shape: tuple[int, ...]

    @property
    def rows(self) -> int:
        """Return the output width."""
        return self.shape[0] if self.shape else 1

    @property
    def columns(self) -> int:
        """Return the input width, 0 for a vector."""
        return self.shape[1] if len(self.shape) > 1 else 0

    def named(self, layer: int) -> str:
        """Return the tensor's name in one layer."""
        return self.tensor.replace("{}", str(layer), 1)


Parts = dict[str, Seen]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The decoder's layers as the tensors show them: parts by layer.

    `layers` has an entry for every layer that has tensors, MTP layers left out.
    `embedding` is the input embedding. `parts` are those of any layer, and `keys_everywhere`
    says that every layer has keys of its own.
    """

    prefix: str
    layers: dict[int, Parts] = field(default_factory=dict)
    embedding: Seen | None = None
    parts: frozenset[str] = frozenset()
    keys_everywhere: bool = False

    @property
    def depth(self) -> int:
        """Return how many layers there are."""
        return max(self.layers, default=-1) + 1

    def has(self, *parts: str) -> bool:
        """Return whether some layer has one of these parts."""
        return not self.parts.isdisjoint(parts)


_CROSS = re.compile(
    r"(?:^|\.)(?:cross_?attn\w*|cross_?attention\w*|encoder_attn|encoder_attention|encdecattention)\."
)
# Parts that are told by the last component alone, inside attention.
_BY_LAST: dict[str, str] = {
    name: part
    for part, names in {
        "key": "k_proj key k wk key_proj k_lin",
        "value": "v_proj value v wv value_proj v_lin",
        "query": "q_proj query q wq query_proj q_lin q_b_proj",
        "fused": "c_attn query_key_value wqkv qkv_proj qkv w_pack att_proj",
        "output": "o_proj out_proj dense c_proj o wo attn_out",
        "latent": "kv_a_proj_with_mqa kv_a_proj wkv_a",
        "latent_norm": "kv_a_layernorm",
        "fused_latent": "fused_qkv_a_proj_with_mqa",
        "query_latent": "q_a_layernorm",
        "key_norm": "k_norm k_layernorm key_layernorm",
        "decay": "a_log",
        "conv": "conv1d",
    }.items()
    for name in names.split()
}
_INDEX_KEY = re.compile(r"(?:^|\.)index\w*\.(?:wk|k_proj)$")
_SHORT_CONV = re.compile(r"(?:^|\.)(?:conv|short_conv)\.conv$")
_CONV1D = re.compile(r"(?:^|\.)(?:q|k|v)_conv1d$")


def observe(files: ModelFiles, *, num_hidden_layers: int | None = None) -> Stack | None:
    """Return the decoder's layers as seen in the headers, or None where there are none.

    Of several stacks (a talker beside a thinker) the largest is the decoder.
    """
    stored = unpack(files.tensors, read_scheme(files))
    stacks: dict[str, list[Stored]] = {}
    for s in stored:
        if decoder_layer(s.group.name) and s.layout not in {"overhead", "buffer"}:
            stacks.setdefault(s.group.name.split(".{}", 1)[0], []).append(s)
    if not stacks:
        return None
    prefix = max(stacks, key=lambda name: _bytes(stacks[name]))
    embedding = _embedding(stored, prefix)
    mine = stacks[prefix]
    extra = mtp_layers((s.group for s in mine), num_hidden_layers)
    layers: dict[int, Parts] = {}
    for s, part, shape in _named(mine, embedding.columns if embedding else 0):
        for layer in set(s.group.layers).difference(extra):
            parts = layers.setdefault(layer, {})
            if part and shape:
                parts.setdefault(part, Seen(tensor=s.group.name, shape=shape))
    return Stack(
        prefix=prefix,
        layers=layers,
        embedding=embedding,
        parts=frozenset().union(*layers.values()),
        keys_everywhere=all("key" in p or "fused" in p for p in layers.values()),
    )


def _named(
    stored: list[Stored], hidden: int
) -> Iterator[tuple[Stored, str | None, tuple[int, ...] | None]]:
    """Yield every tensor of a stack with its part and its logical shape."""
    biases = {s.group.name: s.group.shape for s in stored if s.group.name.endswith("bias")}
    for s in stored:
        part = None if s.key == "bias" else _part(s.module.split(".{}.", 1)[1])
        yield s, part, _shape(s, part, biases.get(f"{s.module}.bias"), hidden)


def _bytes(stored: Iterable[Stored]) -> int:
    return sum(s.group.nbytes * s.group.count for s in stored)


def _part(rest: str) -> str | None:
    """Return what a module of a layer is, by its path inside the layer.

    `mixer` is any other tensor of a token mixer: it shows that there is one.
    """
    lowered = rest.lower()
    if ".index" in f".{lowered}":
        return "index" if _INDEX_KEY.search(lowered) else None
    if _SHORT_CONV.search(lowered):
        return "conv"
    if _CONV1D.search(lowered):
        return f"conv_{lowered[-8]}"
    role = role_of(rest)
    if role not in {"attention", "norm"}:
        return None
    part = _BY_LAST.get(lowered.rsplit(".", 1)[-1])
    if part is None:
        return "mixer" if role == "attention" else None
    if _CROSS.search(lowered):
        return f"cross_{part}"
    return part


def _shape(
    s: Stored, part: str | None, bias: tuple[int, ...] | None, hidden: int
) -> tuple[int, ...] | None:
    """Return the logical shape with the output first.

    GPT-2 stores its matrices transposed (Conv1D); the bias tells which side is the output.
    A packing that keeps only the number of elements is laid over the hidden size.
    """
    shape = s.shape
    if shape is None:
        width, rest = divmod(s.parameters or 0, hidden or 1)
        if rest or not width or not hidden:
            return None
        return (hidden, width) if part == "output" else (width, hidden)
    if bias and len(shape) == 2 and bias[0] == shape[1] != shape[0]:
        return (shape[1], shape[0])
    return shape


def _embedding(stored: tuple[Stored, ...], prefix: str) -> Seen | None:
    """Return the largest two-dimensional embedding outside the towers."""
    root = prefix.rpartition(".")[0]
    tables = [
        s
        for s in stored
        if len(s.group.shape) == 2
        and s.shape
        and role_of(s.module) == "embedding"
        and not re.search(r"per_layer|position|wpe|token_type", s.group.name)
    ]
    tables = [s for s in tables if s.group.name.startswith(root)] or tables
    best = max(tables, key=lambda s: s.shape[0] if s.shape else 0, default=None)
    return Seen(tensor=best.group.name, shape=best.shape) if best and best.shape else None


def encoder_depth(files: ModelFiles) -> tuple[int, str] | None:
    """Return the number of encoder layers and one of their templates."""
    found = [
        group
        for group in files.tensors
        if re.search(r"(?:^|\.)encoder\.\w+\.\{\}\.", group.name)
        and group.layers
        and not tower_of(group.name)
    ]
    deepest = max(found, key=lambda group: group.layers[-1], default=None)
    return (deepest.layers[-1] + 1, deepest.name) if deepest else None
