"""Tensors as pieces with a role: what is stored, what an engine loads of it, and what not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hfkv.core.config import Config, Log
from hfkv.core.descend import decoder_part
from hfkv.core.files import ModelFiles
from hfkv.core.quantization import Scheme, Stored, unpack
from hfkv.core.record import dataclass
from hfkv.core.roles import decoder_layer, mtp_layers, role_of

__all__ = ["Inventory", "Piece", "sum_known", "take_inventory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """`count` tensors of one kind with one role; a group is split where MTP layers begin."""

    stored: Stored
    role: str
    count: int

    @property
    def bytes(self) -> int:
        """Return the bytes of all of them."""
        return self.stored.group.nbytes * self.count

    @property
    def parameters(self) -> int | None:
        """Return the logical parameters of all of them."""
        one = self.stored.parameters
        return None if one is None else one * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Every piece of a checkpoint; `spare` is a stored head that repeats a tied embedding."""

    pieces: tuple[Piece, ...]
    tied: bool
    spare: tuple[Piece, ...]

    @property
    def unloaded(self) -> tuple[Piece, ...]:
        """Return what engines leave on disk: MTP layers, a spare head, rebuilt buffers."""
        return tuple(p for p in self.pieces if self._left(p))

    @property
    def loaded(self) -> tuple[Piece, ...]:
        """Return what engines keep on the GPU."""
        return tuple(p for p in self.pieces if not self._left(p))

    def _left(self, piece: Piece) -> bool:
        # a spare head is all of the head or nothing of it, but for its bias
        spare = bool(self.spare) and piece.role == "lm_head" and _is_head(piece)
        return spare or piece.role == "mtp" or piece.stored.layout == "buffer"


def take_inventory(files: ModelFiles, scheme: Scheme | None) -> Inventory:
    """Return the tensors of the headers by role, as they are stored and as they are loaded."""
    stored = unpack(files.tensors, scheme)
    text = decoder_part(_config(files))
    pieces = tuple(_pieces(stored, text.count("num_hidden_layers")))
    tied = _tied(files, text, stored)
    return Inventory(pieces=pieces, tied=tied, spare=_spare_head(pieces) if tied else ())


def _config(files: ModelFiles) -> Config:
    return Config(files.config or {}, log=Log(files.config_name))


def _pieces(stored: tuple[Stored, ...], layers: int | None) -> Iterator[Piece]:
    """Give every group a role; a group that reaches into the MTP layers is split evenly."""
    extra = mtp_layers((s.group for s in stored), layers)
    for s in stored:
        group = s.group
        role = _role(s)
        late = extra.intersection(group.layers) if decoder_layer(group.name) else ()
        moved = group.count * len(late) // len(group.layers) if late else 0
        if moved:
            yield Piece(stored=s, role="mtp", count=moved)
        if group.count > moved:
            yield Piece(stored=s, role=role, count=group.count - moved)


def _role(s: Stored) -> str:
    if any(part.startswith("mtp") for part in s.module.split(".")):
        return "mtp"
    if s.layout == "overhead":
        return "quantization"
    return role_of(s.module)


def _tied(files: ModelFiles, text: Config, stored: tuple[Stored, ...]) -> bool:
    """Return whether input and output embedding are one tensor.

    A key decides; where there is none, a model that generates text and stores no output
    head has tied them.
    """
    for config in (_config(files), text):
        flag = config.given("tie_word_embeddings")
        if isinstance(flag, bool):
            return flag
    default = text.raw("tie_word_embeddings")
    if isinstance(default, bool):
        return default
    return not any(_role(s) == "lm_head" for s in stored)


def _spare_head(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Return a stored output head that repeats a tied embedding: engines skip it."""
    embedded = {p.parameters for p in pieces if p.role == "embedding"}
    head = tuple(p for p in pieces if p.role == "lm_head" and _is_head(p))
    return head if sum_known(p.parameters for p in head) in embedded else ()


def _is_head(piece: Piece) -> bool:
    return piece.stored.key != "bias"


def sum_known(values: Iterable[int | None]) -> int | None:
    """Return the sum, or None where one of the values is not known."""
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total
