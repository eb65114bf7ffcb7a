"""What a worker prints: kept in memory, bounded, the newest item's only."""

from __future__ import annotations

import os
import sys
import tempfile

from steelyard.text import ending

_ROOM_LEFT = 4096
"""A write that does not fit is cut at a page, so a full file may miss its last page."""


class Output:
    """A file in memory that cannot grow, shared by the pool, a keeper and its workers along with its position.

    A worker starts each item at the beginning, so the position says how much the item printed. Where the system has no
    such files it is an ordinary one, and an overflow is noticed only at the end of the item.
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
        os.lseek(self.descriptor, 0, os.SEEK_SET)

    @property
    def overflowed(self) -> bool:
        return os.lseek(self.descriptor, 0, os.SEEK_CUR) > self.limit - _ROOM_LEFT

    def tail(self, characters: int = 1000) -> str:
        """The end of what the newest item printed."""
        end = os.lseek(self.descriptor, 0, os.SEEK_CUR)
        data = os.pread(self.descriptor, min(4 * characters, end), max(0, end - 4 * characters))
        text = data.decode(errors="replace").strip()
        return ending(text, characters)

    def close(self) -> None:
        os.close(self.descriptor)
