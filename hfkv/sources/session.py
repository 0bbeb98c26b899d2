"""Connections and threads that any number of models on one Hub are read with."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from hfkv.sources.environment import Token
from hfkv.sources.http import Client
from hfkv.sources.pool import Pool

__all__ = ["WORKERS", "Session"]

WORKERS = 32


class Session:
    """What is shared: the connections, the rate limits that were met, and `WORKERS` threads.

    A `patient` session waits out rate limits for as long as the Hub asks.
    """

    def __init__(self, endpoint: str, token: Token | None, *, patient: bool = False) -> None:
        self.endpoint = endpoint
        self.token = token
        self.pool = Pool(WORKERS)
        self.client = Client(
            endpoint, token=token, timeout=0.0, connections=WORKERS, patient=patient
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and let the threads end; nothing is waited for."""
        self.pool.close()
        self.client.close()
