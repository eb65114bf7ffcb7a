"""Sample and verify as one stream: each sample goes to the verification pool as soon as it is finished."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from steelyard.sampling.base import Decoding, Sampler, SampleRequest
from steelyard.tracking import Activity, Report, silent
from steelyard.tracking.activity import padded
from steelyard.types import Group, Sample, SampleKey, Task, Verdict
from steelyard.verification import Item, Pool


@dataclass(slots=True)
class Stopwatch:
    """Measures the seconds spent in each phase of a step; ``report`` receives progress."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    report: Report = silent

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Report the phase and time it."""
        self.report(Activity(name))
        with self.timed(name):
            yield

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the time spent in the context to ``seconds[name]``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def sample(sampler: Sampler, requests: Sequence[SampleRequest], decoding: Decoding) -> list[Sample]:
    """Return all requested samples in (slot, sample) order."""
    return sorted(sampler.sample(requests, decoding), key=lambda sample: sample.key)


def verify(pool: Pool, items: Sequence[Item]) -> list[Verdict]:
    """Verify all items and return their verdicts in the same order."""
    pool.submit(items)
    verdicts = dict(pool.completed(wait=True))
    return [verdicts[item.sample.key] for item in items]


def collect(
    sampler: Sampler,
    pool: Pool,
    requests: Sequence[SampleRequest],
    decoding: Decoding,
    watch: Stopwatch | None = None,
) -> list[Group]:
    """Sample and verify concurrently. Returns the groups in the order of the requests."""
    watch = watch or Stopwatch()
    by_key = {(request.step, request.slot, request.attempt): request for request in requests}
    total = sum(request.count for request in requests)
    samples: dict[SampleKey, Sample] = {}
    verdicts: dict[SampleKey, Verdict] = {}
    watch.report(rollout_progress(0, 0, total))
    stream = sampler.sample(requests, decoding)
    while (finished := _next(stream, watch)) is not None:
        samples[finished.key] = finished
        watch.report(rollout_progress(len(samples), len(verdicts), total))
        with watch.timed("verify"):
            request = by_key[finished.key[:3]]
            pool.submit([Item(request.task, finished, request.count)])
            verdicts.update(pool.completed(wait=False))
    watch.report(rollout_progress(len(samples), len(verdicts), total))
    with watch.timed("verify"):
        for key, verdict in pool.completed(wait=True):
            verdicts[key] = verdict
            watch.report(rollout_progress(len(samples), len(verdicts), total))
    return [_group(request, samples, verdicts) for request in requests]


def _next(stream: Iterator[Sample], watch: Stopwatch) -> Sample | None:
    with watch.timed("sample"):
        return next(stream, None)


def rollout_progress(sampled: int, verified: int, total: int) -> Activity:
    """Describe the progress: sampling until all samples are finished, then verifying."""
    if sampled < total:
        return Activity("sample", sampled, total, f"{padded(verified, total)} verified")
    return Activity("verify", verified, total)


def _group(request: SampleRequest, samples: dict[SampleKey, Sample], verdicts: dict[SampleKey, Verdict]) -> Group:
    keys = [SampleKey(request.step, request.slot, request.attempt, index) for index in range(request.count)]
    return Group(request.task, tuple(samples[key] for key in keys), tuple(verdicts[key] for key in keys))


def requests_for(
    tasks: Sequence[Task], step: int, count: int, *, slots: Sequence[int] | None = None, attempt: int = 0
) -> list[SampleRequest]:
    """Create one request per task; ``slots`` are their positions in the step (default: 0, 1, ...)."""
    slots = range(len(tasks)) if slots is None else slots
    return [SampleRequest(task, step, slot, count, attempt) for task, slot in zip(tasks, slots, strict=True)]
