"""What a run tells the world: the tracker protocol, histograms, and the fan-out to several trackers.

A step is the number of optimiser steps done, the same number a checkpoint carries; what is measured before the first
one has step 0. A run that resumes from a checkpoint calls ``rewind`` with its step before it logs again, and a run
that starts afresh in an old folder calls ``rewind(-1)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from steelyard.tracking.shown import ShownSample


@dataclass(frozen=True, slots=True)
class Histogram:
    """``counts[i]`` values lie in ``[edges[i], edges[i + 1])``; the last bin holds its right edge too."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    @staticmethod
    def of(values: Sequence[float], *, bins: int = 20) -> Histogram:
        """Equal bins over the range of the finite values; no values give one empty bin."""
        value_N = np.asarray(values, dtype=np.float64).reshape(-1)
        value_N = value_N[np.isfinite(value_N)]
        counts, edges = np.histogram(value_N, bins=bins if len(value_N) else 1)
        return Histogram(tuple(edges.tolist()), tuple(counts.tolist()))


Metric = float | Histogram


class Tracker(Protocol):
    """Somewhere metrics and samples go."""

    def log(self, step: int, metrics: Mapping[str, Metric]) -> None: ...

    def samples(self, step: int, shown: Sequence[ShownSample]) -> None: ...

    def rewind(self, step: int) -> None:
        """Drop everything logged at steps after this one."""
        ...

    def close(self) -> None: ...


class Trackers:
    """Several trackers as one. A list of numbers is taken as raw values and reaches them as a histogram."""

    def __init__(self, trackers: Iterable[Tracker]) -> None:
        self.trackers = tuple(trackers)

    def log(self, step: int, metrics: Mapping[str, Metric | Sequence[float]]) -> None:
        plain = {name: _metric(value) for name, value in metrics.items()}
        for tracker in self.trackers:
            tracker.log(step, plain)

    def samples(self, step: int, shown: Sequence[ShownSample]) -> None:
        for tracker in self.trackers:
            tracker.samples(step, shown)

    def rewind(self, step: int) -> None:
        for tracker in self.trackers:
            tracker.rewind(step)

    def close(self) -> None:
        """Close all of them, also when one fails; the first failure is raised at the end."""
        failed: Exception | None = None
        for tracker in self.trackers:
            try:
                tracker.close()
            except Exception as error:  # noqa: BLE001 - raised below, after the others are closed
                failed = failed or error
        if failed is not None:
            raise failed


def _metric(value: Metric | Sequence[float]) -> Metric:
    if isinstance(value, Histogram):
        return value
    if isinstance(value, Sequence | np.ndarray):
        return Histogram.of(value)
    return int(value) if isinstance(value, int) else float(value)
