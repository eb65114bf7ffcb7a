"""Samples that were cut off before their constraint let them end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.types import Verdict
from steelyard.verification.base import Item, Mode, Verifier, isolated


@dataclass(frozen=True, eq=False)
class WholeSamples:
    """Rejects what was cut off at the token limit; the verifier is asked only about samples that came to an end."""

    verifier: Verifier

    @property
    def name(self) -> str:
        return self.verifier.name

    @property
    def mode(self) -> Mode:
        return self.verifier.mode

    @property
    def floor(self) -> float | None:
        return self.verifier.floor

    @property
    def isolate(self) -> bool:
        return isolated(self.verifier)

    @property
    def version(self) -> str | None:
        return self.verifier.version

    @property
    def deterministic(self) -> bool:
        return self.verifier.deterministic

    @property
    def cut_off(self) -> Verdict:
        return Verdict.rejected("cut off at the token limit before its constraint let it end", floor=self.floor)

    def verify(self, items: Sequence[Item]) -> list[Verdict]:
        whole = [item for item in items if not item.sample.truncated]
        verdicts = iter(self.verifier.verify(whole) if whole else ())
        cut_off = self.cut_off
        return [cut_off if item.sample.truncated else next(verdicts) for item in items]
