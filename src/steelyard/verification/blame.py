"""Whose fault an accident is: how often it is tried again, and what it means when it stays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from steelyard.defaults import TRIES
from steelyard.errors import VerifierError
from steelyard.types import Verdict
from steelyard.verification.base import Cause, Outcome

Accidents = tuple[Verdict, ...]

WORTH_ANOTHER_TRY = frozenset(Cause) - {Cause.NO_SCORE}
"""A verifier that declines to judge, or gives a cause of its own, has said its word."""
POINT_AT_THE_SAMPLE = WORTH_ANOTHER_TRY - {Cause.LOST_WORKER}
"""Causes for which the sample answers if they come again."""


@dataclass(frozen=True, slots=True)
class Blame:
    """How often an accident is tried again, and whose fault it is when it stays.

    By default an accident is tried once more, on another worker where there is one. The same accident in every try
    (the same cause, signal and exit code) is put down to the sample, which is rejected: otherwise a policy could drift
    to outputs that crash its checker. Different accidents, and those that say nothing of the sample, leave it unscored.
    """

    tries: int = TRIES
    outcome: Mapping[str, Outcome] = field(default_factory=dict[str, Outcome])
    """What a cause means in the end, instead of the rule above."""

    def with_outcomes(self, declared: Mapping[str, Outcome]) -> Blame:
        """The same, except for the outcomes that a verifier declares itself."""
        return replace(self, outcome={**self.outcome, **declared})

    def again(self, accidents: Accidents) -> bool:
        return len(accidents) < self.tries and accidents[-1].cause in WORTH_ANOTHER_TRY

    def final(self, accidents: Accidents, floor: float | None) -> Verdict:
        """The verdict when it is not tried again."""
        last = replace(accidents[-1], tries=len(accidents))
        return replace(last, status="rejected").with_floor(floor) if self._rejects(accidents) else last

    def _rejects(self, accidents: Accidents) -> bool:
        last = accidents[-1]
        if last.cause in self.outcome:
            return self.outcome[last.cause] == "rejected"
        same = len({(accident.cause, accident.detail) for accident in accidents}) == 1
        return same and len(accidents) > 1 and last.cause in POINT_AT_THE_SAMPLE


def require_causes(name: str, outcome: Mapping[str, str]) -> None:
    """Refuse what no accident is called, and outcomes that there are not."""
    unknown = [cause for cause in outcome if cause not in set(Cause)]
    if unknown:
        raise VerifierError(f"{name}: blame names {unknown[0]!r}; the causes are {', '.join(Cause)}")
    wrong = [(cause, value) for cause, value in outcome.items() if value not in ("rejected", "unscored")]
    if wrong:
        raise VerifierError(f"{name}: blame says {wrong[0][1]!r} for {wrong[0][0]}; it is rejected or unscored")
