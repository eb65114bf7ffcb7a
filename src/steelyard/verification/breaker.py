"""The circuit breaker: if too many verifications fail, stop the run, or pause and continue."""

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
"""Number of failures shown in the message."""
FIRST_VERDICTS = 8
"""If this many verdicts at the start are all the same failure, the breaker trips without waiting for a full window."""


class CircuitBreaker(Stage):
    """Trips if more than ``share`` of the last ``window`` verdicts are failures of the verifier.

    The breaker also trips if the first :data:`FIRST_VERDICTS` verdicts are all the same failure. Failures count even if
    they ended as rejections: a verifier that fails on every sample must not look like a policy that gets nothing right.
    """

    def __init__(
        self,
        share: float = MAX_UNSCORED,
        window: int = 64,
        then: Literal["stop", "continue"] = "stop",
        pause_seconds: float = PAUSE_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.share, self.then, self.pause_seconds, self._sleep = share, then, pause_seconds, sleep
        self._last: deque[Verdict] = deque(maxlen=window)
        self._failures = 0
        self._all_same, self._last_failure = True, None

    def observe(self, key: SampleKey, verdict: Verdict) -> None:
        """Count the verdict. Raises :class:`VerifierError` if the breaker trips and the run is to stop."""
        if len(self._last) == self._last.maxlen:
            self._failures -= self._last[0].verifier_failed
        self._last.append(verdict)
        self._failures += verdict.verifier_failed
        full = len(self._last) == self._last.maxlen
        if (full or self._same_failure_from_start(verdict)) and self._failures > self.share * len(self._last):
            self._trip()

    def _same_failure_from_start(self, verdict: Verdict) -> bool:
        """Return whether this completes the first few verdicts and all of them were the same failure."""
        failure = _failure(verdict) if verdict.verifier_failed else None
        self._all_same = self._all_same and failure is not None and self._last_failure in (None, failure)
        self._last_failure = failure
        return self._all_same and len(self._last) == FIRST_VERDICTS

    def _trip(self) -> None:
        self._all_same = False
        message = self._message()
        self._last.clear()
        self._failures = 0
        if self.then == "stop":
            raise VerifierError(message + "\nFix the verifier, test it with `steelyard check`, then resume the run.")
        log.error("%s\nContinuing in %g s (verify.when_unscored = %r).", message, self.pause_seconds, self.then)
        self._sleep(self.pause_seconds)

    def _message(self) -> str:
        failures = [verdict for verdict in self._last if verdict.verifier_failed]
        causes = Counter(_kind(verdict) for verdict in failures)
        counted = ", ".join(f"{count} × {cause}" for cause, count in causes.most_common())
        examples = list({_kind(verdict) + verdict.reason: verdict for verdict in failures}.values())[-EXAMPLES:]
        shown = "\n".join(f"  {_kind(verdict)}: {_indented(verdict.reason)}" for verdict in examples)
        return (
            f"verification failed for {len(failures)} of the last {len(self._last)} samples: {counted} "
            f"(verify.max_unscored = {self.share}).\n{shown}"
        )


def _kind(verdict: Verdict) -> str:
    return one_line(f"{verdict.cause} ({verdict.detail})" if verdict.detail else verdict.cause)


def _failure(verdict: Verdict) -> str:
    """Return the key that distinguishes failures: the cause and the last line of the reason."""
    return f"{_kind(verdict)}: {verdict.reason.strip().rpartition(chr(10))[2]}"


def _indented(reason: str) -> str:
    return printable(reason).strip().replace("\n", "\n    ")
