"""Addresses on the test Hub, and how a request to them fails."""

from __future__ import annotations

from typing import Any

import pytest
from hub_server import GRANTED, HubServer

from hfkv.errors import UnreadableError
from hfkv.sources.environment import Token
from hfkv.sources.http import Client

TOKEN = Token(GRANTED, "HF_TOKEN")


DATA = bytes(range(256)) * 400  # 102,400 bytes


def small(hub: HubServer) -> str:
    """Return the address of the small file."""
    return f"{hub.endpoint}/o/n/resolve/main/a.json"


def large(hub: HubServer) -> str:
    """Return the address of the large file."""
    return f"{hub.endpoint}/o/n/resolve/main/w.safetensors"


def host(hub: HubServer, side: str = "hub") -> str:
    """Return host and port as messages name them."""
    return hub.base(side).removeprefix("http://")


def failure(client: Client, url: str, *args: Any, **kwargs: Any) -> UnreadableError:
    """Return the failure that a request ends with."""
    with pytest.raises(UnreadableError) as caught:
        client.fetch(url, *args, **kwargs)
    return caught.value
