"""All family rows in one greppable place."""

from __future__ import annotations

from functools import cache

from hfkv.core.families.convolved import CONVOLVED
from hfkv.core.families.encoder_decoder import ENCODER_DECODER
from hfkv.core.families.family import Family
from hfkv.core.families.irregular import IRREGULAR
from hfkv.core.families.latent import LATENT
from hfkv.core.families.recurrent import RECURRENT
from hfkv.core.families.windowed import WINDOWED

__all__ = ["FAMILIES", "family_of"]

FAMILIES: tuple[Family, ...] = (
    *WINDOWED,
    *LATENT,
    *RECURRENT,
    *CONVOLVED,
    *ENCODER_DECODER,
    *IRREGULAR,
)


@cache
def _by_type() -> dict[str, Family]:
    return {model_type: row for row in FAMILIES for model_type in row.model_types}


def family_of(model_type: str | None) -> Family | None:
    """Return the row of a model type, or None when the generic reading is all there is."""
    return _by_type().get(model_type or "")
