"""The circuit breaker: when too much cannot be judged, pause, say why, and stop or go on as configured."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Literal

from steelyard.defaults import MAX_UNSCORED, PAUSE_SECONDS
from steelyard.errors import VerifierError
from steelyard.text import one_line, printable
from steelyard.types import SampleKey, Verdict
from steelyard.verification.pipeline import Stage

log = logging.getLogger("steelyard.verification")
EXAMPLES = 3
FIRST = 8
"""When this many verdicts at the start are all the same failure, the rest of the step would show nothing new."""


class Breaker(Stage):
    """Watches the last ``window`` verdicts; more than ``share`` of them accidents means that the checker is broken. So
    does the same failure in each of the first :data:`FIRST`, before the first step is over.

    Accidents count also where they ended as rejections: a checker that fails on everything must not pass for a policy
    that makes nothing right.
    """

    def __init__(
        self,
        share: float = MAX_UNSCORED,
        window: int = 64,
        then: Literal["stop", "go on"] = "stop",
        pause_seconds: float = PAUSE_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.share, self.then, self.pause_seconds, self._sleep = share, then, pause_seconds, sleep
        self._last: deque[Verdict] = deque(maxlen=window)
        self._accidents = 0
        self._same, self._failure = True, None

    def observe(self, key: SampleKey, verdict: Verdict) -> None:
        """Raises :class:`VerifierError` if this one is too many and the run is to stop."""
        if len(self._last) == self._last.maxlen:
            self._accidents -= self._last[0].accident
        self._last.append(verdict)
        self._accidents += verdict.accident
        full = len(self._last) == self._last.maxlen
        if (full or self._same_from_the_start(verdict)) and self._accidents > self.share * len(self._last):
            self._trip()

    def _same_from_the_start(self, verdict: Verdict) -> bool:
        """Whether this is the last of the first few verdicts, and each of them was the same failure."""
        failure = _failure(verdict) if verdict.accident else None
        self._same = self._same and failure is not None and self._failure in (None, failure)
        self._failure = failure
        return self._same and len(self._last) == FIRST

    def _trip(self) -> None:
        self._same = False
        message = self._message()
        self._last.clear()
        self._accidents = 0
        if self.then == "stop":
            raise VerifierError(message + "\nMend the verifier and try it with `steelyard check`, then resume.")
        log.error("%s\nGoing on in %g s, as verify.when_unscored says.", message, self.pause_seconds)
        self._sleep(self.pause_seconds)

    def _message(self) -> str:
        accidents = [verdict for verdict in self._last if verdict.accident]
        causes = Counter(_kind(verdict) for verdict in accidents)
        counted = ", ".join(f"{count} × {cause}" for cause, count in causes.most_common())
        examples = list({_kind(verdict) + verdict.reason: verdict for verdict in accidents}.values())[-EXAMPLES:]
        shown = "\n".join(f"  {_kind(verdict)}: {_indented(verdict.reason)}" for verdict in examples)
        return (
            f"{len(accidents)} of the last {len(self._last)} samples could not be judged: {counted} "
            f"(verify.max_unscored is {self.share}).\n{shown}"
        )


def _kind(verdict: Verdict) -> str:
    return one_line(f"{verdict.cause} ({verdict.detail})" if verdict.detail else verdict.cause)


def _failure(verdict: Verdict) -> str:
    """What tells one failure from another: the kind, and the last line of what was raised."""
    return f"{_kind(verdict)}: {verdict.reason.strip().rpartition(chr(10))[2]}"


def _indented(reason: str) -> str:
    return printable(reason).strip().replace("\n", "\n    ")
