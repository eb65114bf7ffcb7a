"""Judging a group as a whole: successes that few others of it repeat are worth more.

Where one consistent theory is enough for the whole reward, a policy ends by writing that one. Here each success gains
``weight`` / m if m successes of its group are the same up to how they are written and, unless they are to count, up to
vector-like pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from steelyard.domains.theories.canonical import canonical
from steelyard.domains.theories.text import read
from steelyard.errors import Invalid
from steelyard.types import Task, Verdict


@dataclass(frozen=True)
class Varied:
    """The judgements of ``judge``, and a part ``variety``: 1/m for a success, 0 for others."""

    judge: Callable[[Task, str], Verdict]
    weight: float
    vector_like: bool = False
    """Whether theories that differ in vector-like pairs alone are different."""

    def __call__(self, task: Task, texts: Sequence[str]) -> list[Verdict]:
        alone = [self._alone(task, text) for text in texts]
        forms = [
            canonical(read(text), vector_like=self.vector_like) if verdict.success else None
            for text, verdict in zip(texts, alone, strict=True)
        ]
        often = Counter(forms)
        return [
            self._with_variety(verdict, 1 / often[form] if form else 0.0)
            for verdict, form in zip(alone, forms, strict=True)
        ]

    def _alone(self, task: Task, text: str) -> Verdict:
        try:
            return self.judge(task, text)
        except Invalid as error:
            return Verdict.rejected(str(error))

    def _with_variety(self, verdict: Verdict, variety: float) -> Verdict:
        if verdict.status != "scored":
            return verdict
        parts = {**verdict.parts, "variety": variety}
        return replace(verdict, reward=verdict.reward + self.weight * variety, parts=parts)
