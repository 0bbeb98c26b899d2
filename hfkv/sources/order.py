"""How a repository is to be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hfkv.core.record import dataclass

__all__ = ["Order"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is wanted of a repository, and how the one who wants it is kept informed.

    `file` is one weights file instead of the whole model; `config` stands in for its
    config.json; `deep` compares the index with the headers, name by name; `frugal` asks for
    nothing that may turn out not to be needed, which costs a round trip. `progress` is told
    (done, total, what); `meanwhile` is called in a thread of its own while answers are waited for.
    """

    file: str | None = None
    config: dict[str, Any] | None = None
    deep: bool = False
    frugal: bool = False
    timeout: float = 60.0
    progress: Callable[[int, int, str], None] | None = None
    meanwhile: Callable[[], object] | None = None
