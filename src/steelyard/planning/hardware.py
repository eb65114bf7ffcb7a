"""Accelerators as described by their data sheets, and the links between them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steelyard.errors import ConfigError

GIGA, TERA = 1e9, 1e12


@dataclass(frozen=True, slots=True)
class Accelerator:
    """Data sheet of an accelerator, in bytes, bytes per second and operations per second (dense bfloat16)."""

    name: str
    memory: float
    bandwidth: float
    flops: float
    link: float
    """One-way bandwidth to other accelerators in the same node."""
    node: int = 8
    """Accelerators per node."""
    network: float = 50 * GIGA
    """One-way bandwidth to other nodes per accelerator; the default is one 400 Gbit/s card each."""


def _sheet(name: str, memory: float, bandwidth: float, flops: float, link: float, **more: float) -> Accelerator:
    """Build an accelerator from data-sheet units: GB, TB/s, TFLOP/s and GB/s."""
    network = more.get("network", 50) * GIGA
    node = int(more.get("node", 8))
    return Accelerator(name, memory * GIGA, bandwidth * TERA, flops * TERA, link * GIGA, node, network)


ACCELERATORS = {
    sheet.name: sheet
    for sheet in (
        _sheet("a100-40", 40, 1.555, 312, 300, network=25),
        _sheet("a100", 80, 2.039, 312, 300, network=25),
        _sheet("h100", 80, 3.35, 989, 450),
        _sheet("h200", 141, 4.8, 989, 450),
        _sheet("b200", 180, 8.0, 2250, 900),
        _sheet("mi300x", 192, 5.3, 1307, 448),
        _sheet("l40s", 48, 0.864, 362, 32, network=12.5),
        _sheet("rtx4090", 24, 1.008, 165, 32, network=3),
    )
}
"""Dense bfloat16 rates from the data sheets, without sparsity. Link rates are half the two-way bandwidth. Network rates
are typical of such nodes, not properties of the accelerator.
"""


@dataclass(frozen=True, slots=True)
class Machines:
    """Several accelerators of one kind."""

    count: int
    kind: Accelerator

    @property
    def nodes(self) -> int:
        return -(-self.count // self.kind.node)

    def __str__(self) -> str:
        return f"{self.count}x{self.kind.name}"


def parse_machines(text: str, known: Mapping[str, Accelerator] = ACCELERATORS) -> Machines:
    """Parse a count and a kind, such as ``8xh100``."""
    match = re.fullmatch(r"([1-9]\d*)x([\w.-]+)", text.lower())
    if match is None or match[2] not in known:
        raise ConfigError(
            f"{text!r} is not a machine specification; write a count and a type, such as 8xh100 "
            f"(types: {', '.join(known)})"
        )
    return Machines(int(match[1]), known[match[2]])


UNITS = {
    "memory_gb": GIGA,
    "bandwidth_gbs": GIGA,
    "tflops": TERA,
    "link_gbs": GIGA,
    "node": 1,
    "network_gbs": GIGA,
}


def read_accelerators(path: Path) -> dict[str, Accelerator]:
    """Add accelerators from a TOML file to the known ones; each table has the keys of ``UNITS``."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            f"cannot read accelerators from {path} ({error}); pass a TOML file with one table per accelerator"
        ) from error
    return {**ACCELERATORS, **{name.lower(): _parse_accelerator(path, name, table) for name, table in tables.items()}}


def _parse_accelerator(path: Path, name: str, table: Mapping[str, float]) -> Accelerator:
    required = set(UNITS) - {"node", "network_gbs"}
    if not isinstance(table, dict) or not required <= set(table) <= set(UNITS):
        found = ", ".join(sorted(table)) if isinstance(table, dict) else repr(table)
        raise ConfigError(
            f"{path}: [{name}] has {found}; it needs {', '.join(sorted(required))} (optional: node, network_gbs)"
        )
    value = {key: number * UNITS[key] for key, number in table.items()}
    more: dict[str, float] = {key: value[f"{key}_gbs"] for key in ("network",) if f"{key}_gbs" in value}
    node = int(value.get("node", 8))
    return Accelerator(
        name.lower(),
        value["memory_gb"],
        value["bandwidth_gbs"],
        value["tflops"],
        value["link_gbs"],
        node,
        **more,
    )
