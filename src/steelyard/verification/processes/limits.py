"""What a worker may use, for one item or as long as it lives."""

from __future__ import annotations

import math
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from steelyard import defaults

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """``None`` lifts a limit. A call that judges n items at once has n times the seconds."""

    seconds: float | None = defaults.LIMIT_SECONDS
    """Wall clock an item; then the worker and all it started are killed."""
    cpu_seconds: float | None = None
    """Processor time an item, counted in the worker itself and rounded up to a whole second."""
    memory_mb: int | None = defaults.LIMIT_MEMORY_MB
    """Address space of the worker, and of each process it starts."""
    file_mb: int | None = defaults.LIMIT_FILE_MB
    """Largest file it may write."""
    open_files: int | None = defaults.LIMIT_OPEN_FILES
    output_kb: int = defaults.LIMIT_OUTPUT_KB
    """What it may print in a call, which a verifier of groups or batches makes for several items."""

    def apply(self) -> None:
        """Bind this process and all it will start; whoever may not set a limit that high keeps the lower one."""
        _bind(resource.RLIMIT_CORE, 0)
        _bind(resource.RLIMIT_FSIZE, None if self.file_mb is None else self.file_mb * _MIB)
        _bind(resource.RLIMIT_NOFILE, self.open_files)
        if sys.platform == "linux":  # elsewhere the system takes the number and does not keep to it
            _bind(resource.RLIMIT_AS, None if self.memory_mb is None else self.memory_mb * _MIB)

    def apply_cpu(self, items: int) -> None:
        """Count processor time anew, from what the process has used so far."""
        if self.cpu_seconds is not None:
            allowed = math.ceil(time.process_time() + self.cpu_seconds * items)
            resource.setrlimit(resource.RLIMIT_CPU, (allowed, resource.getrlimit(resource.RLIMIT_CPU)[1]))


@dataclass(frozen=True, slots=True)
class Recycling:
    """When a worker that did nothing wrong is replaced by a fresh one."""

    items: int | None = defaults.RECYCLE_ITEMS
    memory_mb: int | None = defaults.RECYCLE_MEMORY_MB
    """Resident memory after an item."""

    def due(self, items: int) -> bool:
        if self.items is not None and items >= self.items:
            return True
        return self.memory_mb is not None and resident_mb() > self.memory_mb


def resident_mb() -> float:
    """Resident memory of this process; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except OSError:
        return 0.0
    return pages * resource.getpagesize() / _MIB


def _bind(kind: int, wanted: int | None) -> None:
    if wanted is None:
        return
    hard = resource.getrlimit(kind)[1]
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(kind, (allowed, allowed))
