"""Values that change over the run (learning-rate multiplier, KL and entropy coefficients) as functions of the step."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi
from typing import Literal

from steelyard.errors import ConfigError

ScheduleKind = Literal["constant", "linear", "cosine"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """``start`` to ``end`` over ``steps`` steps after a linear warm-up from near 0.

    The value at step t (counted from 0) is ``start * (t + 1) / (warmup + 1)`` for t < warmup, so that the first step
    is not wasted on 0. After that, with ``p = (t - warmup) / (steps - warmup)`` held in [0, 1], it is ``start``
    (constant), ``start + (end - start) p`` (linear) or ``end + (start - end) (1 + cos(pi p)) / 2`` (cosine): ``start``
    at t = warmup and ``end`` from t = steps on.
    """

    kind: ScheduleKind = "constant"
    start: float = 1.0
    end: float = 0.0
    steps: int = 0
    """Not used by ``constant``."""
    warmup: int = 0

    def __post_init__(self) -> None:
        if self.kind not in ("constant", "linear", "cosine"):
            raise ConfigError(f"unknown schedule {self.kind!r}: known are constant, linear, cosine")
        if self.warmup < 0:
            raise ConfigError(f"schedule warm-up must be 0 or more steps, got {self.warmup}")
        if self.kind != "constant" and self.steps <= self.warmup:
            raise ConfigError(
                f"schedule {self.kind!r} must outlast its warm-up: steps = {self.steps}, warmup = {self.warmup}"
            )

    def value(self, step: int) -> float:
        if step < self.warmup:
            return self.start * (step + 1) / (self.warmup + 1)
        if self.kind == "constant":
            return self.start
        progress = min((step - self.warmup) / (self.steps - self.warmup), 1.0)
        if self.kind == "linear":
            return self.start + (self.end - self.start) * progress
        return self.end + (self.start - self.end) * (1 + cos(pi * progress)) / 2
