"""Pools made of pools: several verifiers weighed into one, and samples that need no verifier at all."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from steelyard.types import SampleKey, Verdict
from steelyard.verification.base import Item, Pool
from steelyard.verification.weighted import WeightedVerifier


class WeightedPool:
    """Asks every part in a pool of its own and weighs their verdicts when all are there.

    So each part is called in its own mode, runs where it should, and is cached by itself.
    """

    def __init__(self, verifier: WeightedVerifier, pools: Sequence[Pool]) -> None:
        if len(pools) != len(verifier.parts):
            raise ValueError(f"{len(pools)} pools for {len(verifier.parts)} parts")
        self.verifier, self.pools = verifier, list(pools)
        self._lengths: dict[SampleKey, int] = {}
        self._found: dict[SampleKey, dict[int, Verdict]] = {}

    def submit(self, items: Sequence[Item]) -> None:
        self._lengths.update((item.sample.key, len(item.sample.text)) for item in items)
        for pool in self.pools:
            pool.submit(items)

    def completed(self, *, wait: bool | float) -> Iterator[tuple[SampleKey, Verdict]]:
        for place, pool in enumerate(self.pools):
            for key, verdict in pool.completed(wait=wait):
                found = self._found.setdefault(key, {})
                found[place] = verdict
                if len(found) == len(self.pools):
                    verdicts = [found[part] for part in range(len(self.pools))]
                    del self._found[key]
                    yield key, self.verifier.combine(verdicts, self._lengths.pop(key))

    def metrics(self) -> dict[str, float]:
        return added(pool.metrics() for pool in self.pools)

    def close(self) -> None:
        self._lengths.clear()
        self._found.clear()
        for pool in self.pools:
            pool.close()


class WholeSamplesPool:
    """Rejects what was cut off at the token limit and asks the pool about the rest."""

    def __init__(self, pool: Pool, cut_off: Verdict) -> None:
        self.pool, self.cut_off = pool, cut_off
        self._ready: deque[tuple[SampleKey, Verdict]] = deque()

    def submit(self, items: Sequence[Item]) -> None:
        self._ready.extend((item.sample.key, self.cut_off) for item in items if item.sample.truncated)
        whole = [item for item in items if not item.sample.truncated]
        if whole:
            self.pool.submit(whole)

    def completed(self, *, wait: bool | float) -> Iterator[tuple[SampleKey, Verdict]]:
        while self._ready:
            yield self._ready.popleft()
        yield from self.pool.completed(wait=wait)

    def metrics(self) -> dict[str, float]:
        return self.pool.metrics()

    def close(self) -> None:
        self._ready.clear()
        self.pool.close()


def added(figures: Iterator[dict[str, float]]) -> dict[str, float]:
    """The sum of figures by name."""
    total: dict[str, float] = {}
    for one in figures:
        for name, value in one.items():
            total[name] = total.get(name, 0.0) + value
    return total
