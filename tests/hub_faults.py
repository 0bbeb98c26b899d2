"""What the test Hub can do wrong."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol


@dataclass
class Fault:
    """What to do wrong to requests whose path and Range match, `times` times.

    `kind` is one of INSTEAD, or changes the normal answer of a file: ignore_range,
    wrong_range, no_range_header, gzip.
    """

    match: str
    kind: str
    side: str = "any"
    ranged: str = ""
    times: int = 1_000_000
    every: int = 1  # of the requests that match, only each so-many-th
    met: int = 0
    status: int = 503
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Sender(Protocol):
    """What a fault needs of the request handler."""

    path: str
    close_connection: bool
    connection: socket.socket

    def begin(self, status: int, length: int, headers: Mapping[str, str]) -> None:
        """Send the head of an answer."""

    def write(self, data: bytes) -> None:
        """Send some of its body."""

    def send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a whole answer."""


def _status(sender: Sender, fault: Fault) -> None:
    sender.send(fault.status, fault.body, fault.headers)


def _html(sender: Sender, _: Fault) -> None:
    sender.send(200, b"<!DOCTYPE html><p>Log in", {"Content-Type": "text/html"})


def _short(sender: Sender, _: Fault) -> None:
    sender.begin(206, 100, {"Content-Range": "bytes 0-99/102400"})
    sender.write(bytes(50))
    sender.close_connection = True


def _reset(sender: Sender, _: Fault) -> None:
    sender.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sender.close_connection = True
    sender.connection.close()


def _hang(sender: Sender, _: Fault) -> None:
    sender.connection.settimeout(20)
    sender.connection.recv(1)  # until the client gives up
    sender.close_connection = True


def _drip(sender: Sender, _: Fault) -> None:
    sender.begin(200, 1000, {})
    for _byte in range(400):
        sender.write(b" ")
        time.sleep(0.05)
    sender.close_connection = True


def _drip_head(sender: Sender, _: Fault) -> None:
    """Send a status line that never ends; each letter is in time for whoever waits for one."""
    with suppress(OSError):
        for byte in b"HTTP/1.1 200 " + b"O" * 200:
            sender.connection.send(bytes([byte]))
            time.sleep(0.05)
    sender.close_connection = True


def _loop(sender: Sender, _: Fault) -> None:
    sender.send(302, b"", {"Location": sender.path})


# Faults that take the place of the whole answer.
INSTEAD: dict[str, Callable[[Sender, Fault], None]] = {
    "status": _status,
    "html": _html,
    "short": _short,
    "reset": _reset,
    "hang": _hang,
    "drip": _drip,
    "drip-head": _drip_head,
    "loop": _loop,
}
