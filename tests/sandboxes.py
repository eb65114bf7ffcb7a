"""The sandbox levels to test.

Tests that need bubblewrap are skipped where it is unavailable; with ``STEELYARD_REQUIRE_BUBBLEWRAP`` they fail instead.
"""

from __future__ import annotations

import os

import pytest

from benchmarks.verification.escapes import REQUIRE
from steelyard.verification.sandbox import describe_level, level_in_force

NEEDS_BUBBLEWRAP = pytest.mark.skipif(
    level_in_force() != "bubblewrap" and not os.environ.get(REQUIRE),
    reason=f"bubblewrap is unavailable here: the sandbox level is {describe_level()}",
)
LEVELS = ("basic", pytest.param("bubblewrap", marks=NEEDS_BUBBLEWRAP))
