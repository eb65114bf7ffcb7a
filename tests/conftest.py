"""Settings for all tests. Each test gets the marker of its folder: unit, property and so on."""

from __future__ import annotations

import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from benchmarks.framework.process import stop_ignoring_signals
from tests.time_budgets import TimeBudgets

STATE = tempfile.TemporaryDirectory(prefix="steelyard-tests-")
os.environ["XDG_STATE_HOME"] = STATE.name  # tests must not change the user's trust settings

os.environ["OMP_NUM_THREADS"] = "1"  # must precede the import of torch; tiny models are fastest on one thread

stop_ignoring_signals()  # CI may run under nohup

# A slow test on a busy machine is not a failure; pytest-timeout kills tests that hang.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

FOLDERS = ("unit", "property", "golden", "learning", "faults", "e2e")


@pytest.hookimpl(optionalhook=True)  # a pytest-xdist hook; pytest-xdist may not be installed
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from tests.scheduling import ByEngine

    return ByEngine(config, log)


@pytest.fixture(autouse=True)
def same_random_state() -> None:
    """Seed all random generators, so that a test does not depend on the tests that ran before it."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # not a pytest-xdist worker
        config.pluginmanager.register(TimeBudgets())


@pytest.hookimpl(tryfirst=True)  # must run before -m selects tests by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(root).parts[0]
        if folder in FOLDERS:
            item.add_marker(folder)
