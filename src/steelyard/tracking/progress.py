"""The state behind the console: the newest value of every metric, short histories, and timing."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from steelyard.tracking.activity import Activity
from steelyard.tracking.base import Histogram, Metric

HISTORY = 40
"""Number of past values kept for sparklines and trends."""
_WITH_HISTORY = ("reward/mean", "success")


class RunningPhase(NamedTuple):
    """The current activity, the start time of its phase, and the count at that time."""

    activity: Activity
    at: float
    done: int


class Progress:
    """Collects metrics and activities for display. This class does not depend on the trainer."""

    def __init__(self, total_steps: int, clock: Callable[[], float]) -> None:
        self.total_steps = total_steps
        self.step = 0
        self.skipped = 0
        self.failures: Counter[str] = Counter()
        """Failures of the verifier so far by cause, whether the sample was rejected or unscored."""
        self.running: RunningPhase | None = None
        self._last_seconds: dict[str, float] = {}
        """Duration of each phase when it last ran."""
        self._clock = clock
        self._value: dict[str, float] = {}
        self._measured_at: dict[str, int] = {}
        self._history: dict[str, deque[float]] = {name: deque(maxlen=HISTORY) for name in _WITH_HISTORY}
        self._began = clock()
        self._ticks: deque[tuple[float, int]] = deque([(self._began, 0)], maxlen=20)

    def start(self, step: int) -> None:
        """Start the clock at a step; a resumed run starts at the step of its checkpoint."""
        self.step = max(0, step)
        self._began = self._clock()
        self._ticks = deque([(self._began, self.step)], maxlen=20)

    def update(self, step: int, metrics: Mapping[str, Metric]) -> None:
        for name, metric in metrics.items():
            if isinstance(metric, Histogram):
                continue
            self._value[name] = float(metric)
            if name.startswith(("unscored/", "rejected/")):
                self.failures[name.partition("/")[2]] += int(metric)
            self._measured_at[name] = step
            if name in self._history:
                self._history[name].append(float(metric))
        skipped = metrics.get("skipped", 0)
        self.skipped += 0 if isinstance(skipped, Histogram) else int(skipped)
        if step > self.step:
            self.step = step
            self._ticks.append((self._clock(), step))

    def set_activity(self, activity: Activity | None) -> bool:
        """Set the current activity and return whether its phase is a new one."""
        before, now = self.running, self._clock()
        if before is not None and activity is not None and before.activity.phase == activity.phase:
            self.running = before._replace(activity=activity)
            return False
        if before is not None:
            self._last_seconds[before.activity.phase] = now - before.at
        self.running = None if activity is None else RunningPhase(activity, now, activity.done)
        return True

    def phase_elapsed(self, running: RunningPhase) -> float:
        return self._clock() - running.at

    def phase_left(self, running: RunningPhase) -> float | None:
        """Estimate the seconds left from the progress in this phase, else from its last duration; None if unknown."""
        activity, elapsed = running.activity, self.phase_elapsed(running)
        progressed = activity.done - running.done
        if progressed > 0:
            return elapsed * (activity.total - activity.done) / progressed
        before = self._last_seconds.get(activity.phase, 0.0)
        return before - elapsed if before > elapsed else None

    @property
    def measured(self) -> bool:
        """Whether any metric has been logged."""
        return bool(self._value)

    def __contains__(self, name: str) -> bool:
        return name in self._value

    def get(self, name: str) -> float | None:
        return self._value.get(name)

    def step_note(self, name: str) -> str:
        """Return `` (step 100)`` if the newest value is from an earlier step than the current one, else nothing."""
        at = self._measured_at.get(name, self.step)
        return f" (step {at})" if at < self.step else ""

    def with_prefix(self, prefix: str) -> list[str]:
        """Return all metric names with this prefix, in the order in which they were first logged."""
        return [name for name in self._value if name.startswith(prefix)]

    @property
    def parts(self) -> list[str]:
        """Names of the reward parts, from training and evaluations."""
        trained = [name.removeprefix("parts/").removesuffix("/mean") for name in self.with_prefix("parts/")]
        evaluated = [name.removeprefix("eval/parts/") for name in self.with_prefix("eval/parts/")]
        return list(dict.fromkeys([*trained, *evaluated]))

    def history(self, name: str) -> list[float]:
        return list(self._history[name])

    @property
    def elapsed(self) -> float:
        return self._clock() - self._began

    @property
    def seconds_left(self) -> float | None:
        """Estimate from the pace of the last 20 steps, including evaluations and saving; None before the first step."""
        (first, from_step), (last, to_step) = self._ticks[0], self._ticks[-1]
        if to_step == from_step:
            return None
        pace = (last - first) / (to_step - from_step)
        return max(0.0, pace * (self.total_steps - self.step) - (self._clock() - last))
