"""Schedules: learning rate, KL and entropy coefficients as functions of the training step."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi
from typing import Literal

from steelyard.errors import ConfigError

ScheduleKind = Literal["constant", "linear", "cosine"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """A value that goes from ``start`` to ``end`` over ``steps`` steps, after a linear warm-up.

    During the warm-up, t < warmup, the value at step t is ``start * (t + 1) / (warmup + 1)``, which is not 0 at the
    first step (t = 0). Afterwards, with ``p = (t - warmup) / (steps - warmup)`` clamped to [0, 1], the value is
    ``start`` (constant), ``start + (end - start) p`` (linear) or ``end + (start - end) (1 + cos(pi p)) / 2`` (cosine).
    """

    kind: ScheduleKind = "constant"
    start: float = 1.0
    end: float = 0.0
    steps: int = 0
    """Unused by ``constant``."""
    warmup: int = 0

    def __post_init__(self) -> None:
        if self.kind not in ("constant", "linear", "cosine"):
            raise ConfigError(f"unknown schedule {self.kind!r}: valid names are constant, linear, cosine")
        if self.warmup < 0:
            raise ConfigError(f"schedule warmup = {self.warmup} must be 0 or a positive number of steps")
        if self.kind != "constant" and self.steps <= self.warmup:
            raise ConfigError(
                f"schedule {self.kind!r}: steps = {self.steps} must be larger than warmup ({self.warmup})"
            )

    def value(self, step: int) -> float:
        """Return the value at a step, counted from 0."""
        if step < self.warmup:
            return self.start * (step + 1) / (self.warmup + 1)
        if self.kind == "constant":
            return self.start
        progress = min((step - self.warmup) / (self.steps - self.warmup), 1.0)
        if self.kind == "linear":
            return self.start + (self.end - self.start) * progress
        return self.end + (self.start - self.end) * (1 + cos(pi * progress)) / 2
