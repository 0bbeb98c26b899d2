"""What several models are read with: one set of connections, threads and rate limits."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from hfkv.sources.session import Session

__all__ = ["Shared"]


class Shared:
    """Opened when the first model on the Hub is read: local ones need no HTTP library.

    With `patient`, rate limits are waited out for as long as the Hub asks.
    """

    def __init__(self, *, patient: bool = False) -> None:
        self._patient = patient
        self._session: Session | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            self._session.close()

    def session(self, endpoint: str, token: str | None) -> Session:
        """Return the one session; endpoint and token are those of whoever comes first."""
        from hfkv.sources.environment import find_token  # noqa: PLC0415
        from hfkv.sources.session import Session  # noqa: PLC0415  no HTTP for what is local

        with self._lock:
            if self._session is None:
                self._session = Session(endpoint, find_token(token), patient=self._patient)
            return self._session
