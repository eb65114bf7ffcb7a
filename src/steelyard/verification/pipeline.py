"""The stages between the samples and the pool that runs the verifier.

::

    samples  ──> breaker ──> truncated? ──> cache ──> pool
    verdicts <── breaker <───────────────── cache <── pool

A stage may return a verdict itself; later stages and the pool then never see that sample. All earlier stages observe
the verdict on its way back. The pool handles retries, because it knows on which worker a call failed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from steelyard.types import SampleKey, Verdict
from steelyard.verification.base import Item, Pool


class Stage:
    """Base class of stages. By default a stage does nothing."""

    def answer(self, item: Item) -> Verdict | None:
        """Return a verdict, or ``None`` to pass the item on."""

    def observe(self, key: SampleKey, verdict: Verdict) -> None:
        """Observe a verdict of a later stage or of the pool. May raise an error to end the run."""

    def metrics(self) -> dict[str, float]:
        """Return counters since the last call."""
        return {}

    def close(self) -> None:
        """Release resources."""


class RejectTruncated(Stage):
    """Rejects samples that reached the token limit before their constraint allowed an end, without verifying them."""

    def __init__(self, floor: float | None) -> None:
        self.verdict = Verdict.rejected(
            "truncated at the token limit before the constraint allowed an end", floor=floor
        )

    def answer(self, item: Item) -> Verdict | None:
        return self.verdict if item.sample.truncated else None


class Pipeline(Pool):
    """A pool with stages in front of another pool, the outermost stage first."""

    def __init__(self, stages: Sequence[Stage], pool: Pool) -> None:
        self.stages, self.pool = tuple(stages), pool
        self._answered: deque[tuple[int, SampleKey, Verdict]] = deque()
        """Verdicts given by stages, each with the number of its stage."""

    def submit(self, items: Sequence[Item]) -> None:
        unanswered = [item for item in items if not self._answer(item)]
        if unanswered:
            self.pool.submit(unanswered)

    def completed(self, *, wait: bool | float) -> Iterator[tuple[SampleKey, Verdict]]:
        while self._answered:
            number, key, verdict = self._answered.popleft()
            yield self._returned(number, key, verdict)
        for key, verdict in self.pool.completed(wait=wait):
            yield self._returned(len(self.stages), key, verdict)

    def observe(self, key: SampleKey, verdict: Verdict) -> None:
        self._returned(len(self.stages), key, verdict)

    def metrics(self) -> dict[str, float]:
        metrics = self.pool.metrics()
        for stage in self.stages:
            metrics |= stage.metrics()
        return metrics

    def close(self) -> None:
        self._answered.clear()
        self.pool.close()
        for stage in self.stages:
            stage.close()

    def _answer(self, item: Item) -> bool:
        for number, stage in enumerate(self.stages):
            verdict = stage.answer(item)
            if verdict is not None:
                self._answered.append((number, item.sample.key, verdict))
                return True
        return False

    def _returned(self, number: int, key: SampleKey, verdict: Verdict) -> tuple[SampleKey, Verdict]:
        """Show the verdict of stage ``number`` to all earlier stages, the nearest first, unless it is a reply."""
        for stage in reversed(self.stages[:number]) if verdict.status != "continues" else ():
            stage.observe(key, verdict)
        return key, verdict
