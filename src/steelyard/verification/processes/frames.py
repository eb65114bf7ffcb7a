"""Messages over a socket: a length, followed by that many bytes. Requests are pickled, answers are JSON.

A worker trusts the run, so requests are pickled and keep their types. The run does not trust a worker, which runs other
people's code, so it reads answers as JSON only.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from typing import Any

_LENGTH = struct.Struct("<Q")
MAX_MESSAGE_BYTES = 64 * 2**20
"""Maximum size of an answer. A larger one is invalid."""


class BrokenFrameError(Exception):
    """The bytes are not a valid message."""


def frame(payload: bytes) -> bytes:
    """Prefix the payload with its length."""
    return _LENGTH.pack(len(payload)) + payload


def json_frame(data: Any) -> bytes:
    """Encode data as a JSON message."""
    return frame(json.dumps(data).encode())


def receive(connection: socket.socket) -> bytes | None:
    """Wait for the next message and return its payload, or ``None`` if the other side has closed."""
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
    """Decodes messages from bytes that arrive in arbitrary pieces."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """Add bytes and yield the messages that are now complete."""
        self._data += data
        while len(self._data) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._data)
            if size > MAX_MESSAGE_BYTES:
                raise BrokenFrameError(f"message of {size} bytes exceeds the limit of {MAX_MESSAGE_BYTES}")
            end = _LENGTH.size + size
            if len(self._data) < end:
                return
            payload = bytes(self._data[_LENGTH.size : end])
            del self._data[:end]
            try:
                yield json.loads(payload)
            except (ValueError, RecursionError) as error:
                raise BrokenFrameError(f"not JSON: {error}") from None
