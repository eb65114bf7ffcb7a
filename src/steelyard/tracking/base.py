"""The tracker protocol, histograms, and the fan-out to several trackers.

A step is the number of completed training steps, as in the name of a checkpoint; step 0 is before training. A resumed
run calls ``rewind`` with the step of its checkpoint before it logs, and a run that starts over in an old folder calls
``rewind(-1)``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from steelyard.text import one_line
from steelyard.tracking.activity import Activity
from steelyard.tracking.shown import ShownSample

log = logging.getLogger("steelyard.tracking")


@dataclass(frozen=True, slots=True)
class Histogram:
    """``counts[i]`` values lie in ``[edges[i], edges[i + 1])``; the last bin includes its right edge."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    @staticmethod
    def of(values: Sequence[float], *, bins: int = 20) -> Histogram:
        """Count the finite values in equal-width bins over their range.

        There are fewer bins if floats cannot resolve them all, and one empty bin if there are no values.
        """
        value_N = np.asarray(values, dtype=np.float64).reshape(-1)
        value_N = value_N[np.isfinite(value_N)]
        if not len(value_N):
            return Histogram((0.0, 1.0), (0,))
        edges = _edges(float(value_N.min()), float(value_N.max()), bins)
        counts, _ = np.histogram(value_N, bins=edges)
        return Histogram(tuple(edges.tolist()), tuple(counts.tolist()))


def _edges(low: float, high: float, bins: int) -> NDArray[np.float64]:
    """Return ascending edges from ``low`` to ``high``, widened if both are equal, without overflow."""
    if low == high:
        room, largest = max(0.5, 1e-6 * abs(low)), float(np.finfo(np.float64).max)
        low, high = max(low - room, -largest), min(high + room, largest)
    share = np.linspace(0.0, 1.0, bins + 1)
    return np.unique(low * (1.0 - share) + high * share)


Metric = float | Histogram
T = TypeVar("T")


class Tracker(Protocol):
    """A destination for metrics and samples."""

    def log(self, step: int, metrics: Mapping[str, Metric]) -> None: ...

    def samples(self, step: int, shown: Sequence[ShownSample]) -> None: ...

    def rewind(self, step: int) -> None:
        """Drop everything logged at steps after this one."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class SupportsProgress(Protocol):
    """A tracker that also shows the progress within a step."""

    def progress(self, activity: Activity) -> None:
        """Show an activity. Called up to once per sample and verdict, so it must be cheap."""
        ...


class Trackers:
    """Forwards to several trackers. A list of numbers is converted to a histogram.

    A tracker that fails (full disk, closed pipe, unreachable service) stops neither the run nor the other trackers. The
    failed tracker is called again at every step; its failure is reported once, and again only after it has recovered.
    Errors in ``rewind`` do propagate, because no training is lost before the first step.
    """

    def __init__(self, trackers: Iterable[Tracker]) -> None:
        self.trackers = tuple(trackers)
        self._live = tuple(tracker for tracker in self.trackers if isinstance(tracker, SupportsProgress))
        self._failing: set[tuple[int, str]] = set()

    def log(self, step: int, metrics: Mapping[str, Metric | Sequence[float]]) -> None:
        plain = {name: _metric(value) for name, value in metrics.items()}
        self._each(self.trackers, "metrics", lambda tracker: tracker.log(step, plain))

    def samples(self, step: int, shown: Sequence[ShownSample]) -> None:
        self._each(self.trackers, "samples", lambda tracker: tracker.samples(step, shown))

    def progress(self, activity: Activity) -> None:
        """Show the current activity."""
        self._each(self._live, "progress", lambda tracker: tracker.progress(activity))

    def rewind(self, step: int) -> None:
        for tracker in self.trackers:
            tracker.rewind(step)

    def close(self) -> None:
        self._each(self.trackers, "last figures", lambda tracker: tracker.close())

    def _each(self, trackers: Iterable[T], what: str, call: Callable[[T], None]) -> None:
        for tracker in trackers:
            key = (id(tracker), what)
            try:
                call(tracker)
            except Exception as error:  # noqa: BLE001 - no tracker error may stop training
                if key not in self._failing:
                    name, reason = type(tracker).__name__, one_line(f"{type(error).__name__}: {error}")
                    log.warning("%s cannot write the %s: %s. The run continues without it.", name, what, reason)
                self._failing.add(key)
            else:
                self._failing.discard(key)


def _metric(value: Metric | Sequence[float]) -> Metric:
    if isinstance(value, Histogram):
        return value
    if isinstance(value, Sequence | np.ndarray):
        return Histogram.of(value)
    return int(value) if isinstance(value, int) else float(value)
