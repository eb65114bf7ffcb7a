"""The pool without workers: the verifier runs in this process, in this thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from steelyard.types import SampleKey, Verdict
from steelyard.verification.base import Item, Pool, Verifier
from steelyard.verification.blame import Blame
from steelyard.verification.calls import Batcher, Call, settle
from steelyard.verification.judging import judge


class InlinePool(Pool):
    """Verifies while ``submit`` runs: single items immediately, batches when full, groups when complete.

    For verifiers that are fast and cannot hang: nothing here can stop one that does.
    """

    def __init__(self, verifier: Verifier, blame: Blame | None = None) -> None:
        self.verifier = verifier
        self.blame = (blame or Blame()).with_outcomes(verifier.blame)
        self._batcher = Batcher(verifier.mode)
        self._ready: deque[tuple[SampleKey, Verdict]] = deque()

    def submit(self, items: Sequence[Item]) -> None:
        for call in self._batcher.add(items):
            self._verify(call)

    def completed(self, *, wait: bool | float) -> Iterator[tuple[SampleKey, Verdict]]:
        held = self._batcher.flush() if wait else iter(())
        while True:
            while self._ready:
                yield self._ready.popleft()
            call = next(held, None)
            if call is None:
                return
            self._verify(call)

    def close(self) -> None:
        self._batcher.clear()
        self._ready.clear()

    def _verify(self, call: Call) -> None:
        calls = deque([call])
        while calls:
            call = calls.popleft()
            verdicts = judge(self.verifier, call.items)
            settled, again = settle(call, verdicts, self.verifier.mode, self.blame, self.verifier.floor)
            self._ready.extend(settled)
            calls.extend(again)
