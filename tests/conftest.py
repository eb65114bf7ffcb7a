"""Every test carries the marker of its folder: tests/unit, tests/property and so on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ["OMP_NUM_THREADS"] = "1"  # before anything imports torch: tiny models are fastest on one thread

FOLDERS = ("unit", "property", "golden", "learning", "faults", "e2e")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(root).parts[0]
        if folder in FOLDERS:
            item.add_marker(folder)
