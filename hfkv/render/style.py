"""What the place that text is shown in can do."""

from __future__ import annotations

from hfkv.core.record import dataclass

__all__ = ["Style"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Columns, colour, and whether more than ASCII can be shown."""

    width: int = 80
    color: bool = False
    unicode: bool = True
