"""Resource limits of a worker, per item or for its lifetime."""

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
class WorkerLimits:
    """Resource limits of a worker. ``None`` disables a limit. A call with n items gets n times the seconds."""

    seconds: float | None = defaults.LIMIT_SECONDS
    """Wall-clock time per item. When it is up, the worker and all its processes are killed."""
    cpu_seconds: float | None = None
    """CPU time per item, measured in the worker and rounded up to full seconds."""
    memory_mb: int | None = defaults.LIMIT_MEMORY_MB
    """Address space of the worker and of each process that it starts."""
    file_mb: int | None = defaults.LIMIT_FILE_MB
    """Maximum size of any file that the worker writes."""
    open_files: int | None = defaults.LIMIT_OPEN_FILES
    output_kb: int = defaults.LIMIT_OUTPUT_KB
    """Maximum output per call. A call may verify several items."""

    def apply(self) -> None:
        """Set the limits of this process and its future children. A lower existing limit stays in force."""
        _set_limit(resource.RLIMIT_CORE, 0)
        _set_limit(resource.RLIMIT_FSIZE, None if self.file_mb is None else self.file_mb * _MIB)
        _set_limit(resource.RLIMIT_NOFILE, self.open_files)
        if sys.platform == "linux":  # other systems accept this limit but do not enforce it
            _set_limit(resource.RLIMIT_AS, None if self.memory_mb is None else self.memory_mb * _MIB)

    def apply_cpu(self, items: int) -> None:
        """Restart the CPU time limit from the time that the process has used so far."""
        if self.cpu_seconds is not None:
            allowed = math.ceil(time.process_time() + self.cpu_seconds * items)
            resource.setrlimit(resource.RLIMIT_CPU, (allowed, resource.getrlimit(resource.RLIMIT_CPU)[1]))


@dataclass(frozen=True, slots=True)
class Recycling:
    """When to replace a healthy worker with a fresh one."""

    items: int | None = defaults.RECYCLE_ITEMS
    memory_mb: int | None = defaults.RECYCLE_MEMORY_MB
    """Maximum resident memory after an item."""

    def due(self, items: int) -> bool:
        """Return whether to replace a worker that has verified this many items."""
        if self.items is not None and items >= self.items:
            return True
        return self.memory_mb is not None and resident_mb() > self.memory_mb


def resident_mb() -> float:
    """Return the resident memory of this process, or 0 if it is unknown."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except OSError:
        return 0.0
    return pages * resource.getpagesize() / _MIB


def _set_limit(kind: int, wanted: int | None) -> None:
    if wanted is None:
        return
    hard = resource.getrlimit(kind)[1]
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(kind, (allowed, allowed))
