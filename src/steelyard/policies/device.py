"""Chooses devices and dtypes; no other module does this."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch

from steelyard.errors import PolicyError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}


def choose_device(name: str) -> torch.device:
    """Choose a device: ``auto`` prefers CUDA, then MPS, then the CPU; a named device must be available."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, found in available.items() if found))
    kind = name.split(":", maxsplit=1)[0]
    if not available.get(kind, False):
        usable = ", ".join(kind for kind, found in available.items() if found)
        raise PolicyError(f'model.device = {name!r}, but this machine has only {usable}; set device = "auto"')
    return torch.device(name)


def choose_dtype(name: str) -> torch.dtype:
    if name not in DTYPES:
        raise PolicyError(f"model.dtype = {name!r} is unknown; choose one of {', '.join(DTYPES)}")
    return DTYPES[name]


def main_memory() -> int | None:
    """Return the main memory in bytes, capped at the container's limit, or None if the system does not report it."""
    try:
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text(encoding="ascii").strip() if limit.is_file() else "max"
    return min(whole, int(text)) if text.isdigit() else whole


def memory(device: torch.device) -> int:
    """Return the total memory of a CUDA device in bytes."""
    return torch.cuda.get_device_properties(device).total_memory


def autocast(device: torch.device, dtype: torch.dtype | None) -> AbstractContextManager[object]:
    """Return a mixed-precision context for ``device``; it does nothing if ``dtype`` is None."""
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)
