"""What one layer keeps for one sequence: the whole arithmetic of inference caches.

A store either grows with tokens (`Grows`) or does not (`Fixed`). This is the only module
that multiplies by tokens.
"""

from __future__ import annotations

from enum import StrEnum

from hfkv.core.record import dataclass

__all__ = ["Fixed", "Grows", "Layer", "LayerKind", "Role", "Store"]


class Role(StrEnum):
    """What a store is for; engines and users choose dtypes by role."""

    KV = "kv"
    LATENT = "latent"
    INDEX = "index"
    CROSS = "cross"
    STATE = "state"
    CONV = "conv"


class LayerKind(StrEnum):
    """The names the field uses for what a layer does with the past."""

    FULL = "full_attention"
    SLIDING = "sliding_attention"
    CHUNKED = "chunked_attention"
    LATENT = "latent_attention"
    SPARSE_LATENT = "sparse_latent_attention"
    COMPRESSED = "compressed_attention"
    CROSS = "cross_attention"
    LINEAR = "linear_attention"
    STATE_SPACE = "state_space"
    CONVOLUTION = "convolution"
    HYBRID = "hybrid_parallel"
    SHARED = "shared"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grows:
    """Elements kept per token: `heads` x (`key` + `value`), for at most `window` tokens.

    `heads` is what tensor parallelism may split; None means one vector shared by all heads
    (MLA latents, index keys), which every rank keeps whole. `stride` r keeps one entry per
    r tokens. `chunked` says that the window restarts every `window` tokens instead of
    sliding. A store with role CROSS grows with source positions, not with text tokens.
    `modulo` r keeps only the tokens since the last multiple of r (a compressor's buffer).
    `dtype` is set only where the store has a format of its own, else the cache's is used.
    """

    key: int
    value: int = 0
    heads: int | None = None
    window: int | None = None
    chunked: bool = False
    stride: int = 1
    modulo: int | None = None
    role: Role = Role.KV
    dtype: str | None = None

    @property
    def elements(self) -> int:
        """Return elements per kept token."""
        return (self.heads or 1) * (self.key + self.value)

    def slots(self, tokens: int) -> int:
        """Return how many entries a sequence of `tokens` keeps."""
        if self.modulo is not None:
            return tokens % self.modulo
        kept = tokens if self.window is None else min(tokens, self.window)
        return kept // self.stride


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """Elements kept once per sequence, whatever its length.

    `columns` is set for convolution state: how many past inputs are in `elements` (K-1 for
    a kernel of K), so that an engine that keeps another number can say so. `whole` of the
    elements cannot be split between ranks (Mamba-2's B and C when all heads share them).
    """

    elements: int
    heads: int | None = None
    role: Role = Role.STATE
    dtype: str | None = None
    columns: int | None = None
    whole: int = 0


Store = Grows | Fixed


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer of the decoder: its kind and what it keeps.

    `heads` is the number of attention (query) heads where the layer has any.
    """

    kind: LayerKind
    stores: tuple[Store, ...] = ()
    heads: int | None = None

    @property
    def attention(self) -> Grows | None:
        """Return the self-attention store, if the layer has one."""
        return next(
            (s for s in self.stores if isinstance(s, Grows) and s.role in (Role.KV, Role.LATENT)),
            None,
        )
