"""Retries and failure attribution: how often verification is retried, and how a persistent failure is attributed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from steelyard.defaults import TRIES
from steelyard.errors import VerifierError
from steelyard.types import Verdict
from steelyard.verification.base import Cause, Outcome

Failures = tuple[Verdict, ...]
"""The failed verdicts of an item, one per try."""

RETRYABLE = frozenset(Cause) - {Cause.NO_SCORE, Cause.NOT_REPRODUCIBLE}
"""Causes that are retried. A verifier that declines to score, names a cause of its own, or contradicts its earlier
replies is not retried."""
ATTRIBUTABLE_TO_SAMPLE = RETRYABLE - {Cause.LOST_WORKER}
"""Causes that are attributed to the sample if they recur."""


@dataclass(frozen=True, slots=True)
class Blame:
    """Decides whether a failed verification is retried, and whether a persistent failure rejects the sample.

    By default a failure is retried once, on another worker if there is one. If every try fails in the same way (same
    cause, signal and exit code), the failure is attributed to the sample, which is rejected. If such samples were
    unscored instead, the policy could drift towards outputs that crash the verifier. Different failures, and failures
    unrelated to the sample such as a lost worker, leave the sample unscored.
    """

    tries: int = TRIES
    """Number of tries before a failure is final."""
    outcome: Mapping[str, Outcome] = field(default_factory=dict[str, Outcome])
    """Result of a persistent failure by cause; overrides the rule above."""

    def with_outcomes(self, declared: Mapping[str, Outcome]) -> Blame:
        """Return a copy with the outcomes that a verifier declares; they take precedence."""
        return replace(self, outcome={**self.outcome, **declared})

    def retries(self, failures: Failures) -> bool:
        """Return whether to retry after these failures."""
        return len(failures) < self.tries and failures[-1].cause in RETRYABLE

    def final(self, failures: Failures, floor: float | None) -> Verdict:
        """Return the verdict of a sample that is not retried."""
        last = replace(failures[-1], tries=len(failures))
        return replace(last, status="rejected").with_floor(floor) if self._rejects(failures) else last

    def _rejects(self, failures: Failures) -> bool:
        last = failures[-1]
        if last.cause in self.outcome:
            return self.outcome[last.cause] == "rejected"
        same = len({(failure.cause, failure.detail) for failure in failures}) == 1
        return same and len(failures) > 1 and last.cause in ATTRIBUTABLE_TO_SAMPLE


def require_causes(name: str, outcome: Mapping[str, str]) -> None:
    """Raise an error for unknown causes and outcomes."""
    unknown = [cause for cause in outcome if cause not in set(Cause)]
    if unknown:
        raise VerifierError(f"{name}: blame has an unknown cause {unknown[0]!r}; valid causes are {', '.join(Cause)}")
    wrong = [(cause, value) for cause, value in outcome.items() if value not in ("rejected", "unscored")]
    if wrong:
        raise VerifierError(f"{name}: blame[{wrong[0][0]!r}] = {wrong[0][1]!r} must be 'rejected' or 'unscored'")
