"""Judging a group as a whole: successes that few others of it repeat are worth more.

Where one consistent theory is enough for the whole reward, a policy ends by writing that one. Here each success gains
``weight`` · (1/m + 1/n) / 2 if m successes of its group have the same fermions and n are the same altogether, up to how
they are written and, unless they are to count, up to vector-like pairs. If fermions did not count by themselves, the
cheapest way to differ would be scalars that do nothing; if nothing else counted, few successes would differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from steelyard.domains.theories.comparison.canonical_form import canonical
from steelyard.domains.theories.grammar.text import read
from steelyard.domains.theories.model.theory import Theory
from steelyard.errors import Invalid
from steelyard.types import Task, Verdict


@dataclass(frozen=True)
class VarietyScorer:
    """The judgements of ``judge``, and a part ``variety``: (1/m + 1/n) / 2 for a success, 0 for others."""

    score: Callable[[Task, str], Verdict]
    weight: float
    vector_like: bool = False
    """Whether theories that differ in vector-like pairs alone are different."""

    def __call__(self, task: Task, texts: Sequence[str]) -> list[Verdict]:
        alone = [self._score_one(task, text) for text in texts]
        theories = [read(text) if verdict.success else None for text, verdict in zip(texts, alone, strict=True)]
        by_fermions, altogether = (self._rarity(theories, scalars=scalars) for scalars in (False, True))
        return [
            self._with_variety(verdict, (one + other) / 2)
            for verdict, one, other in zip(alone, by_fermions, altogether, strict=True)
        ]

    def _rarity(self, theories: Sequence[Theory | None], *, scalars: bool) -> list[float]:
        """1 over how many are the same; 0 where there is none."""
        forms = [own and canonical(own, vector_like=self.vector_like, scalars=scalars) for own in theories]
        often = Counter(forms)
        return [1 / often[form] if form else 0.0 for form in forms]

    def _score_one(self, task: Task, text: str) -> Verdict:
        try:
            return self.score(task, text)
        except Invalid as error:
            return Verdict.rejected(str(error))

    def _with_variety(self, verdict: Verdict, variety: float) -> Verdict:
        if verdict.status != "scored":
            return verdict
        parts = {**verdict.parts, "variety": variety}
        return replace(verdict, reward=verdict.reward + self.weight * variety, parts=parts)
