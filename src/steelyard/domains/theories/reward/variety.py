"""A variety bonus: successes that are rare within their group score higher.

Without the bonus, a policy that finds one consistent theory keeps writing that theory. Each success gains ``weight`` ·
(1/m + 1/n) / 2, where m is the number of successes in its group with the same fermions and n is the number that are the
same theory. Theories are compared by canonical form, and vector-like pairs are ignored unless ``vector_like`` is set.
Fermions count separately because otherwise adding scalars that have no effect would be the cheapest way to differ.
Comparing only fermions would leave few distinct successes.
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
    """Scores a group with ``score`` and adds a ``variety`` part: (1/m + 1/n) / 2 for successes, 0 otherwise."""

    score: Callable[[Task, str], Verdict]
    weight: float
    vector_like: bool = False
    """Whether theories that differ only in vector-like pairs count as different."""

    def __call__(self, task: Task, texts: Sequence[str]) -> list[Verdict]:
        verdicts = [self._score_one(task, text) for text in texts]
        theories = [read(text) if verdict.success else None for text, verdict in zip(texts, verdicts, strict=True)]
        by_fermions, by_theory = (self._rarity(theories, scalars=scalars) for scalars in (False, True))
        return [
            self._with_variety(verdict, (one + other) / 2)
            for verdict, one, other in zip(verdicts, by_fermions, by_theory, strict=True)
        ]

    def _rarity(self, theories: Sequence[Theory | None], *, scalars: bool) -> list[float]:
        """Return 1 / (number of equal theories) for each theory, and 0 for ``None``."""
        forms = [theory and canonical(theory, vector_like=self.vector_like, scalars=scalars) for theory in theories]
        counts = Counter(forms)
        return [1 / counts[form] if form else 0.0 for form in forms]

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
