"""The theories domain: gauge theories, written word by word, judged by what exact group theory says of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from steelyard.domains.artifacts import Artifact, ColourBy, Report, Summary
from steelyard.domains.base import Domain, Split
from steelyard.domains.theories.artifacts import EXPORTS, PICTURES, TheoryArtifacts
from steelyard.domains.theories.grammar.automaton import TheoryGrammar
from steelyard.domains.theories.grammar.prompts import BEGINNINGS, SPLITS, Beginning, describe, starting_points
from steelyard.domains.theories.grammar.random_theories import random_theory
from steelyard.domains.theories.grammar.text import read
from steelyard.domains.theories.grammar.vocabulary import group_word
from steelyard.domains.theories.model.limits import Limits, limits_from_options
from steelyard.domains.theories.rendering.summary import summarise
from steelyard.domains.theories.reward.reward import Judge, reward_from_options
from steelyard.errors import ConfigError, ConstraintError
from steelyard.special_tokens import SPECIAL_TOKENS
from steelyard.types import Task
from steelyard.verification import FunctionVerifier


@dataclass(frozen=True)
class Theories(Domain):
    """Training tasks have no end and come from all kinds in turn; validation and held-out have each beginning once."""

    picture_formats: ClassVar = PICTURES
    export_formats: ClassVar = EXPORTS

    kinds: tuple[str, ...] = ("groups",)
    """What is given: some of nothing, groups, sector, partial, model."""
    containing: tuple[str, ...] = ()
    """Factors of every gauge group that is given, as ``SU(2)``; one that is named twice has to be there twice."""
    limits: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The most of everything, see :class:`~steelyard.domains.theories.model.limits.Limits`."""
    reward: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """See :class:`~steelyard.domains.theories.reward.reward.Reward`."""
    constrained: bool = True
    """Let through only theories within the limits. If not, what is none is rejected."""
    longest_example: int = 120
    """Words of the longest example of a warm start; what is given may take it further."""
    rising: int = 0
    """Training begins with the easier half of the levels of difficulty; the others come in one by one, the last after
    so many tasks. 0: all are there at once.
    """
    seed: int = 0
    """Decides the order of tasks, not their split."""

    def __post_init__(self) -> None:
        for name in ("kinds", "containing"):
            if isinstance(given := getattr(self, name), str):
                raise ConfigError(f'theories: {name}="{given}" is a word where a list belongs: {name}=["{given}"]')
        object.__setattr__(self, "kinds", tuple(self.kinds))
        object.__setattr__(self, "containing", tuple(self.containing))
        unknown = [kind for kind in self.kinds if kind not in BEGINNINGS]
        if unknown or not self.kinds or len(set(self.kinds)) < len(self.kinds):
            raise ConfigError(f"theories: kinds={list(self.kinds)}; choose some of {', '.join(BEGINNINGS)}, each once")
        factors = [group_word(n) for n in range(1, self.bounds.largest + 1)]
        if strange := [factor for factor in self.containing if factor not in factors]:
            raise ConfigError(f"theories: containing={strange}; the factors within the limits are {', '.join(factors)}")
        if self.rising < 0:
            raise ConfigError(f"theories: rising={self.rising}; it is a number of training tasks, 0 or more")
        reward_from_options(self.reward)
        for kind in self.kinds:
            if kind not in self._beginnings["train"]:
                raise ConfigError(
                    f"theories: within the limits groups = {self.bounds.groups}, abelian = {self.bounds.abelian} and "
                    f"largest = {self.bounds.largest} and with containing = {list(self.containing)} there is no "
                    f"beginning of kind {kind!r}; raise one of these, ask for fewer factors, or leave {kind!r} out of "
                    "kinds"
                )
        for beginning in (one for split in SPLITS for one in self._in_turn[split]):
            try:
                self.grammar.start(_task(beginning))
            except ConstraintError as error:
                raise ConfigError(
                    f"theories: {beginning.kind} does not fit into the limits: {error}; raise them, or leave "
                    f"{beginning.kind!r} out of kinds"
                ) from None

    @cached_property
    def bounds(self) -> Limits:
        return limits_from_options(self.limits)

    @cached_property
    def grammar(self) -> TheoryGrammar:
        return TheoryGrammar(self.bounds)

    def vocabulary(self) -> tuple[str, ...]:
        """Special tokens, the kinds, the words of theories."""
        return (*SPECIAL_TOKENS, *BEGINNINGS, *self.grammar.alphabet())

    def size(self, split: Split) -> int | None:
        """Every beginning once in validation and held-out; training has no end."""
        return None if split == "train" else len(self._in_turn[split])

    def task(self, split: Split, index: int) -> Task:
        """For training in turn from every kind, each kind shuffled anew when it is used up or gets harder ones."""
        if split != "train":
            return _task(self._in_turn[split][index])
        levels = self._levels
        later = len(levels) // 2
        come_in = [-(-number * self.rising // later) for number in range(1, later + 1)]
        met = sum(index >= one for one in come_in)
        begin = come_in[met - 1] if met else 0
        return self._shuffled(levels[len(levels) - later + met - 1], index - begin)

    def _shuffled(self, hardest: float, index: int) -> Task:
        """Number ``index`` of the training tasks that are no harder than this."""
        every = self._beginnings["train"].values()
        by_kind = [found for own in every if (found := [one for one in own if one.difficulty <= hardest])]
        place, kind = divmod(index, len(by_kind))
        epoch, place = divmod(place, len(by_kind[kind]))
        order = np.random.default_rng([self.seed, kind, epoch]).permutation(len(by_kind[kind]))
        return _task(by_kind[kind][order[place]])

    def describe(self, task: Task) -> str:
        return describe(task.spec)

    def judge(self) -> Judge:
        return Judge(self.bounds, reward_from_options(self.reward))

    def verifier(self) -> FunctionVerifier:
        return self.judge().verifier()

    @cached_property
    def _artifacts(self) -> TheoryArtifacts:
        judge = self.judge()
        return TheoryArtifacts(read, lambda text, spec: judge(Task("file", "", spec), text))

    def to_text(self, text: str) -> str:
        return self._artifacts.to_text(text)

    def render(
        self,
        artifacts: Sequence[Artifact],
        form: str = "svg",
        *,
        by: ColourBy = "part",
        scale: float = 1.0,
        title: str = "",
    ) -> bytes:
        """Theories have no stress: ``by`` changes nothing."""
        return self._artifacts.render(artifacts, form, scale=scale, title=title)

    def export(self, text: str, form: str, *, name: str) -> dict[str, bytes]:
        return self._artifacts.export(text, form, name=name)

    def report(self, text: str, spec: Mapping[str, Any] | None = None) -> Report:
        return self._artifacts.report(text, spec)

    def summary(self, artifacts: Sequence[Artifact], *, title: str = "") -> Summary:
        """An atlas of what many samples come to."""
        return summarise(artifacts, read, title=title)

    def automaton(self) -> TheoryGrammar | None:
        return self.grammar if self.constrained else None

    def example(self, index: int, *, seed: int = 0) -> tuple[Task, str]:
        """A training task of any difficulty and a random theory for it: a function of these numbers."""
        task = self._shuffled(self._levels[-1], index)
        least = self.grammar.shortest_end(self.grammar.start(task))
        long = max(self.longest_example, least + len(str(task.spec["given"]).split()))
        return task, random_theory(self.grammar, task, np.random.default_rng([seed, index]), long=long)

    def examples(self, *, seed: int = 0) -> Iterator[tuple[Task, str]]:
        """Training tasks without end, each with a text to begin from."""
        return (self.example(index, seed=seed) for index in itertools.count())

    @cached_property
    def _beginnings(self) -> dict[Split, dict[str, list[Beginning]]]:
        return starting_points(self.kinds, self.bounds, self.containing)

    @cached_property
    def _levels(self) -> list[float]:
        """How difficult training tasks are, the easiest first."""
        return sorted({one.difficulty for own in self._beginnings["train"].values() for one in own})

    @cached_property
    def _in_turn(self) -> dict[Split, list[Beginning]]:
        """Kinds in turn, shuffled within; those of a kind with more come last."""
        found: dict[Split, list[Beginning]] = {}
        for number, split in enumerate(SPLITS):
            shuffled: list[list[Beginning]] = []
            for place, own in enumerate(self._beginnings[split].values()):
                order = np.random.default_rng([self.seed, number, place]).permutation(len(own))
                shuffled.append([own[index] for index in order])
            rounds = itertools.zip_longest(*shuffled)
            found[split] = [one for turn in rounds for one in turn if one is not None]
        return found


def _task(beginning: Beginning) -> Task:
    return Task(beginning.id, beginning.kind, beginning.spec, beginning.difficulty)
