"""The output of a worker: held in memory, bounded, for the latest call only."""

from __future__ import annotations

import os
import sys
import tempfile

from steelyard.text import ending

_ROOM_LEFT = 4096
"""A write that does not fit is cut at a page boundary, so a full file may lack its last page."""


class WorkerOutput:
    """A memory file of fixed size; the pool, a fork server and its workers share the file and its position.

    A worker rewinds the file before each call, so the position is the amount of output. On systems without memory
    files, an ordinary file is used, and an overflow is detected only at the end of the call.
    """

    def __init__(self, limit: int, descriptor: int | None = None) -> None:
        self.limit = max(limit, 2 * _ROOM_LEFT)
        self.descriptor = self._create() if descriptor is None else descriptor

    def _create(self) -> int:
        if sys.platform != "linux":
            with tempfile.TemporaryFile() as file:
                return os.dup(file.fileno())
        import fcntl

        descriptor = os.memfd_create("steelyard output", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, self.limit)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
        return descriptor

    def start(self) -> None:
        """Rewind the file for the next call."""
        os.lseek(self.descriptor, 0, os.SEEK_SET)

    @property
    def overflowed(self) -> bool:
        """Whether the output reached the limit."""
        return os.lseek(self.descriptor, 0, os.SEEK_CUR) > self.limit - _ROOM_LEFT

    def tail(self, characters: int = 1000) -> str:
        """Return the end of the latest output."""
        end = os.lseek(self.descriptor, 0, os.SEEK_CUR)
        data = os.pread(self.descriptor, min(4 * characters, end), max(0, end - 4 * characters))
        text = data.decode(errors="replace").strip()
        return ending(text, characters)

    def close(self) -> None:
        os.close(self.descriptor)
