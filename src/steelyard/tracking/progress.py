"""What the console knows of a run: the newest value of every metric, short histories, and the clock."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping

from steelyard.tracking.base import Histogram, Metric

KEPT = 40
_FOLLOWED = ("reward/mean", "success")


class Progress:
    """Plain metric names in, figures for the display out; knows nothing of the trainer."""

    def __init__(self, total_steps: int, clock: Callable[[], float]) -> None:
        self.total_steps = total_steps
        self.step = 0
        self.skipped = 0
        self.accidents: Counter[str] = Counter()
        """How often each accident of the checker came up so far, whatever became of the sample."""
        self._clock = clock
        self._value: dict[str, float] = {}
        self._measured_at: dict[str, int] = {}
        self._history: dict[str, deque[float]] = {name: deque(maxlen=KEPT) for name in _FOLLOWED}
        self._began = clock()
        self._ticks: deque[tuple[float, int]] = deque([(self._began, 0)], maxlen=20)

    def begin(self, step: int) -> None:
        """Start the clock at a step (a resumed run has less left to do)."""
        self.step = max(0, step)
        self._began = self._clock()
        self._ticks = deque([(self._began, self.step)], maxlen=20)

    def update(self, step: int, metrics: Mapping[str, Metric]) -> None:
        for name, metric in metrics.items():
            if isinstance(metric, Histogram):
                continue
            self._value[name] = float(metric)
            if name.startswith(("unscored/", "rejected/")):
                self.accidents[name.partition("/")[2]] += int(metric)
            self._measured_at[name] = step
            if name in self._history:
                self._history[name].append(float(metric))
        skipped = metrics.get("skipped", 0)
        self.skipped += 0 if isinstance(skipped, Histogram) else int(skipped)
        if step > self.step:
            self.step = step
            self._ticks.append((self._clock(), step))

    def __contains__(self, name: str) -> bool:
        return name in self._value

    def get(self, name: str) -> float | None:
        return self._value.get(name)

    def measured_at(self, name: str) -> int:
        """The step at which the newest value was logged."""
        return self._measured_at[name]

    def history(self, name: str) -> list[float]:
        return list(self._history[name])

    @property
    def elapsed(self) -> float:
        return self._clock() - self._began

    @property
    def seconds_left(self) -> float | None:
        """From the pace of the last steps, everything between them included; None before the first."""
        (first, from_step), (last, to_step) = self._ticks[0], self._ticks[-1]
        if to_step == from_step:
            return None
        pace = (last - first) / (to_step - from_step)
        return max(0.0, pace * (self.total_steps - self.step) - (self._clock() - last))
