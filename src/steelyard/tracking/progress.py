"""What the console knows of a run: the newest value of every metric, short histories, and the clock."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from steelyard.tracking.activity import Activity
from steelyard.tracking.base import Histogram, Metric

KEPT = 40
_FOLLOWED = ("reward/mean", "success")


class Started(NamedTuple):
    """An activity, when its phase began, and how much was done by then."""

    activity: Activity
    at: float
    done: int


class Progress:
    """Plain metric names in, figures for the display out; knows nothing of the trainer."""

    def __init__(self, total_steps: int, clock: Callable[[], float]) -> None:
        self.total_steps = total_steps
        self.step = 0
        self.skipped = 0
        self.accidents: Counter[str] = Counter()
        """How often each accident of the checker came up so far, whatever became of the sample."""
        self.started: Started | None = None
        """What is under way."""
        self._lasted: dict[str, float] = {}
        """Seconds that each phase took when it was last finished."""
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

    def doing(self, activity: Activity | None) -> bool:
        """Take note of what is under way now; whether that is another phase than before."""
        before, now = self.started, self._clock()
        if before is not None and activity is not None and before.activity.phase == activity.phase:
            self.started = before._replace(activity=activity)
            return False
        if before is not None:
            self._lasted[before.activity.phase] = now - before.at
        self.started = None if activity is None else Started(activity, now, activity.done)
        return True

    def phase_elapsed(self, started: Started) -> float:
        return self._clock() - started.at

    def phase_left(self, started: Started) -> float | None:
        """From what was done since the phase began, else from how long it took the last time; None: no idea."""
        activity, elapsed = started.activity, self.phase_elapsed(started)
        moved = activity.done - started.done
        if moved > 0:
            return elapsed * (activity.total - activity.done) / moved
        before = self._lasted.get(activity.phase, 0.0)
        return before - elapsed if before > elapsed else None

    @property
    def measured(self) -> bool:
        """Whether any metric was logged."""
        return bool(self._value)

    def __contains__(self, name: str) -> bool:
        return name in self._value

    def get(self, name: str) -> float | None:
        return self._value.get(name)

    def age(self, name: str) -> str:
        """`` (step 100)`` if the newest value is of an earlier step than the last one; else nothing."""
        at = self._measured_at.get(name, self.step)
        return f" (step {at})" if at < self.step else ""

    def named(self, start: str) -> list[str]:
        """All metrics whose names begin like this, in the order in which they came."""
        return [name for name in self._value if name.startswith(start)]

    @property
    def parts(self) -> list[str]:
        """Names of the parts of the reward, in training or in an evaluation."""
        trained = [name.removeprefix("parts/").removesuffix("/mean") for name in self.named("parts/")]
        evaluated = [name.removeprefix("eval/parts/") for name in self.named("eval/parts/")]
        return list(dict.fromkeys([*trained, *evaluated]))

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
