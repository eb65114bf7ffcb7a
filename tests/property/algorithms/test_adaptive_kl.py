"""The adaptive KL coefficient stays positive and moves KL towards its target, for any KL and number of samples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.algorithms.kl import AdaptiveKL

pytestmark = pytest.mark.property


@given(
    coefficient=st.floats(1e-6, 1e3),
    target=st.floats(1e-6, 1e2),
    horizon=st.floats(1e-3, 1e6),
    kls=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8),
    samples=st.integers(1, 10**7),
)
def test_the_coefficient_stays_positive(
    coefficient: float, target: float, horizon: float, kls: list[float], samples: int
) -> None:
    rule = AdaptiveKL(target, horizon)
    for kl in kls:
        following = rule.update(coefficient, kl, samples)
        assert 0.79 * coefficient < following < 1.21 * coefficient
        assert (following <= coefficient) if kl < target else (following >= coefficient)
        coefficient = following
