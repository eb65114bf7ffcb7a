"""Judging a group as a whole: successes that few others of it repeat are worth more.

Where one consistent theory is enough for the whole reward, a policy ends by writing that one. Here each success gains
``weight`` / m if m successes of its group are the same. Compared are their chiral fermions: scalars that do nothing, or
vector-like pairs, are the cheapest way to differ. Or everything, up to how it is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from steelyard.domains.theories.canonical import Canonical, canonical
from steelyard.domains.theories.text import read
from steelyard.errors import Invalid
from steelyard.types import Task, Verdict

Compared = Literal["chiral", "everything"]


@dataclass(frozen=True)
class Varied:
    """The judgements of ``judge``, and a part ``variety``: 1/m for a success, 0 for others."""

    judge: Callable[[Task, str], Verdict]
    weight: float
    compared: Compared = "chiral"

    def __call__(self, task: Task, texts: Sequence[str]) -> list[Verdict]:
        alone = [self._alone(task, text) for text in texts]
        forms = [self._form(text) if verdict.success else None for text, verdict in zip(texts, alone, strict=True)]
        often = Counter(forms)
        return [
            self._with_variety(verdict, 1 / often[form] if form else 0.0)
            for verdict, form in zip(alone, forms, strict=True)
        ]

    def _form(self, text: str) -> Canonical:
        whole = self.compared == "everything"
        return canonical(read(text), vector_like=whole, scalars=whole)

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
