"""The way of a sample to its verifier and back: stages in a row, and the pool that runs the verifier at the end.

::

    samples  ──> breaker ──> truncated? ──> cache ──> pool
    verdicts <── breaker <───────────────── cache <── pool

Each stage may answer a sample itself; then those behind it never see the sample. Every stage in front of the one that
answered sees the verdict on its way back. Retries belong to the pool, which knows the workers that a call failed on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from steelyard.types import SampleKey, Verdict
from steelyard.verification.base import Item, Pool


class Stage:
    """One responsibility between the samples and their verifier. By default it does nothing."""

    def answer(self, item: Item) -> Verdict | None:
        """The verdict, if this stage has one; ``None`` sends the item on."""

    def observe(self, key: SampleKey, verdict: Verdict) -> None:
        """A verdict from behind this stage. May raise to end the run."""

    def metrics(self) -> dict[str, float]:
        """What happened since this was last called."""
        return {}

    def close(self) -> None:
        """Release what the stage holds."""


class RejectTruncated(Stage):
    """Rejects what reached the token limit before its constraint let it end, without asking the verifier."""

    def __init__(self, floor: float | None) -> None:
        self.verdict = Verdict.rejected("cut off at the token limit before its constraint let it end", floor=floor)

    def answer(self, item: Item) -> Verdict | None:
        return self.verdict if item.sample.truncated else None


class Pipeline(Pool):
    """Stages in front of a pool, the outermost first; itself a pool."""

    def __init__(self, stages: Sequence[Stage], pool: Pool) -> None:
        self.stages, self.pool = tuple(stages), pool
        self._answered: deque[tuple[int, SampleKey, Verdict]] = deque()
        """With the number of the stage that answered."""

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

    def metrics(self) -> dict[str, float]:
        figures = self.pool.metrics()
        for stage in self.stages:
            figures |= stage.metrics()
        return figures

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
        """The verdict of stage ``number``, seen by all stages in front of it, the nearest first."""
        for stage in reversed(self.stages[:number]):
            stage.observe(key, verdict)
        return key, verdict
