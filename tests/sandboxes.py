"""The sandbox levels that tests run at. Where bubblewrap cannot be had its tests are skipped and say why, unless
``STEELYARD_REQUIRE_BUBBLEWRAP`` is set: then they fail.
"""

from __future__ import annotations

import os

import pytest

from benchmarks.verification.escapes import REQUIRE
from steelyard.verification.sandbox import describe_level, level_in_force

NEEDS_BUBBLEWRAP = pytest.mark.skipif(
    level_in_force() != "bubblewrap" and not os.environ.get(REQUIRE),
    reason=f"bubblewrap cannot be tried here: the sandbox level is {describe_level()}",
)
LEVELS = ("floor", pytest.param("bubblewrap", marks=NEEDS_BUBBLEWRAP))
