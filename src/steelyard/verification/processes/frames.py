"""Messages over a socket: a length, then so many bytes. Requests are pickled, answers are JSON.

The run trusts itself, so what it sends to a worker may be pickled and keeps its types. It does not trust a worker,
which ran somebody else's code: whatever comes back is read as JSON and nothing else.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from typing import Any

_LENGTH = struct.Struct("<Q")
LARGEST = 64 * 2**20
"""Bytes of the largest answer that is read; a longer one is no answer."""


class BrokenFrameError(Exception):
    """The frame is not a message."""


def frame(payload: bytes) -> bytes:
    return _LENGTH.pack(len(payload)) + payload


def json_frame(data: Any) -> bytes:
    return frame(json.dumps(data).encode())


def receive(connection: socket.socket) -> bytes | None:
    """The next message's payload, waiting for it; ``None`` when the other side has closed."""
    head = _exactly(connection, _LENGTH.size)
    return None if head is None else _exactly(connection, _LENGTH.unpack(head)[0])


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(min(size - len(data), 2**20))
        if not part:
            return None
        data += part
    return bytes(data)


class JsonReader:
    """Takes bytes as they come and gives the messages that are whole."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        self._data += data
        while len(self._data) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._data)
            if size > LARGEST:
                raise BrokenFrameError(f"a message of {size} bytes")
            end = _LENGTH.size + size
            if len(self._data) < end:
                return
            payload = bytes(self._data[_LENGTH.size : end])
            del self._data[:end]
            try:
                yield json.loads(payload)
            except (ValueError, RecursionError) as error:
                raise BrokenFrameError(f"no JSON: {error}") from None
