"""The pool without workers: the verifier runs in this process, in this thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from steelyard.types import SampleKey, Verdict
from steelyard.verification.base import Batch, Item, One, Verifier
from steelyard.verification.judging import GroupKey, group_of, judge


class InlinePool:
    """Verifies while ``submit`` runs: single items at once, batches when full, groups of ``group_size`` when complete.

    For verifiers that are fast and cannot hang: nothing here can stop one that does.
    """

    def __init__(self, verifier: Verifier, group_size: int) -> None:
        if group_size < 1:
            raise ValueError(f"group size {group_size}: a group holds at least one sample")
        self.verifier = verifier
        self.group_size = group_size
        self._held: dict[GroupKey | None, list[Item]] = {}
        self._ready: deque[tuple[SampleKey, Verdict]] = deque()

    def submit(self, items: Sequence[Item]) -> None:
        mode = self.verifier.mode
        if isinstance(mode, One):
            for item in items:
                self._verify([item])
            return
        full = mode.size if isinstance(mode, Batch) else self.group_size
        for item in items:
            key = None if isinstance(mode, Batch) else group_of(item)
            held = self._held.setdefault(key, [])
            held.append(item)
            if len(held) == full:
                self._verify(self._held.pop(key))

    def completed(self, *, wait: bool) -> Iterator[tuple[SampleKey, Verdict]]:
        while self._ready or (wait and self._held):
            if not self._ready:
                self._verify(self._held.pop(next(iter(self._held))))
            yield self._ready.popleft()

    def close(self) -> None:
        self._held.clear()
        self._ready.clear()

    def _verify(self, items: list[Item]) -> None:
        ordered = sorted(items, key=lambda item: item.sample.key)
        verdicts = judge(self.verifier, ordered)
        self._ready.extend((item.sample.key, verdict) for item, verdict in zip(ordered, verdicts, strict=True))
