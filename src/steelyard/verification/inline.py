"""A pool without workers: the verifier runs in this process and thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from steelyard.types import SampleKey, Verdict
from steelyard.verification.base import Item, Pool, Verifier
from steelyard.verification.blame import Blame
from steelyard.verification.calls import Batcher, Call, settle
from steelyard.verification.safe_verify import safe_verify


class InlinePool(Pool):
    """Verifies in ``submit``: single items immediately, batches when full and groups when complete.

    Use it for fast verifiers only. This pool cannot stop a verifier that hangs.
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
        self.verifier.close_sessions()

    def _verify(self, call: Call) -> None:
        calls = deque([call])
        while calls:
            call = calls.popleft()
            verdicts = safe_verify(self.verifier, call.items)
            settled, retries = settle(call, verdicts, self.verifier.mode, self.blame, self.verifier.floor)
            self._ready.extend(settled)
            calls.extend(retries)
