"""The configuration of a fill-in run that takes seconds: a warm start, a judge and one step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steelyard import config as configs

TABLES: dict[str, Any] = {
    "model": {
        "kind": "masked",
        "device": "cpu",
        "scratch": {"layers": 1, "width": 32, "heads": 2, "max_length": 64, "spaced": False},
    },
    "domain": {"name": "infill", "options": {"max_length": 60, "max_holes": 6}},
    "sampling": {"tasks_per_step": 2, "group_size": 4},
    "warmstart": {"examples": 16, "batch": 8, "warmup_steps": 1},
    "judge": {"examples": 16, "batch": 8, "warmup_steps": 1, "weight": 0.5},
    "tracking": {"console": False},
}


def config_of(folder: Path, **tables: Any) -> configs.Config:
    """Build the configuration; the given tables replace the defaults."""
    return configs.build({**TABLES, "run": {"folder": str(folder), "name": "run", "steps": 1}, **tables}, source="test")
