"""The one place that chooses devices and number formats."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch

from steelyard.errors import PolicyError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}


def choose_device(name: str) -> torch.device:
    """``auto`` takes CUDA, then MPS, then the CPU; a device asked for by name must be there."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, there in available.items() if there))
    kind = name.split(":", maxsplit=1)[0]
    if not available.get(kind, False):
        there = ", ".join(kind for kind, is_there in available.items() if is_there)
        raise PolicyError(f'model.device is {name!r}, but this machine has only: {there}. Use device = "auto".')
    return torch.device(name)


def choose_dtype(name: str) -> torch.dtype:
    if name not in DTYPES:
        raise PolicyError(f"model.dtype is {name!r}; choose one of {', '.join(DTYPES)}")
    return DTYPES[name]


def main_memory() -> int | None:
    """Bytes of main memory, used or not, within the limit of the container; None if the system does not say."""
    try:
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text(encoding="ascii").strip() if limit.is_file() else "max"
    return min(whole, int(text)) if text.isdigit() else whole


def memory(device: torch.device) -> int:
    """Bytes of a CUDA device."""
    return torch.cuda.get_device_properties(device).total_memory


def autocast(device: torch.device, dtype: torch.dtype | None) -> AbstractContextManager[object]:
    """Mixed precision on ``device``, or nothing when ``dtype`` is None."""
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)
