"""The configuration repeats the names of algorithms, which it cannot import without torch; they must agree."""

from __future__ import annotations

import inspect
from typing import Any, get_args

from steelyard.algorithms.advantages import ESTIMATORS, SUBSET_ESTIMATORS
from steelyard.algorithms.aggregation import AGGREGATIONS
from steelyard.algorithms.kl import LOSS_ESTIMATORS
from steelyard.algorithms.schedules import ScheduleKind
from steelyard.algorithms.shaping import Truncation
from steelyard.algorithms.surrogates import SURROGATES
from steelyard.config import CreditConfig, KlConfig, LossConfig, OptimiserConfig, ScheduleConfig
from steelyard.config.sampling import ADVANTAGES, TOOLS
from steelyard.defaults import SMALLEST_K
from steelyard.tools import INCLUDED


def choices(section: type[Any], key: str) -> set[str]:
    return set(get_args(section.model_fields[key].annotation))


def test_estimators() -> None:
    assert set(ADVANTAGES) == set(ESTIMATORS) | set(SUBSET_ESTIMATORS)
    assert set(SMALLEST_K) == set(SUBSET_ESTIMATORS)


def test_tools() -> None:
    assert set(TOOLS) == set(INCLUDED)


def test_surrogates_aggregations_and_kl() -> None:
    assert choices(LossConfig, "surrogate") == set(SURROGATES)
    assert choices(LossConfig, "aggregation") == set(AGGREGATIONS)
    assert choices(KlConfig, "estimator") == set(LOSS_ESTIMATORS) | {"k1"}


def test_schedules_and_truncation() -> None:
    assert choices(ScheduleConfig, "kind") == choices(OptimiserConfig, "schedule") == set(get_args(ScheduleKind))
    assert choices(CreditConfig, "truncated") == set(get_args(Truncation))


def test_surrogate_options_are_arguments_of_the_surrogate() -> None:
    for name, function in SURROGATES.items():
        options = LossConfig.model_validate({"surrogate": name}).surrogate_options()
        assert set(options) == set(inspect.signature(function).parameters) - {"inp"}
