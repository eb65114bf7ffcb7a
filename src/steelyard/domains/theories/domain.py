"""The theories domain: gauge theories written word by word and scored with exact group theory."""

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
from steelyard.domains.theories.grammar.random_theories import random_theory
from steelyard.domains.theories.grammar.starting_points import (
    SPLITS,
    STARTING_POINTS,
    StartingPoint,
    describe,
    starting_points_by_split,
)
from steelyard.domains.theories.grammar.text import read
from steelyard.domains.theories.grammar.vocabulary import group_word
from steelyard.domains.theories.model.limits import Limits, limits_from_options
from steelyard.domains.theories.rendering.summary import summarise
from steelyard.domains.theories.reward.reward import TheoryScorer, reward_from_options
from steelyard.errors import ConfigError, ConstraintError
from steelyard.special_tokens import SPECIAL_TOKENS
from steelyard.types import Task
from steelyard.verification import FunctionVerifier


@dataclass(frozen=True)
class Theories(Domain):
    """Tasks to write a gauge theory from a given starting point.

    Training tasks are unlimited and alternate between kinds. The validation and held-out splits contain each starting
    point once.
    """

    picture_formats: ClassVar = PICTURES
    export_formats: ClassVar = EXPORTS

    kinds: tuple[str, ...] = ("groups",)
    """Kinds of starting points: any of nothing, groups, sector, partial, model."""
    required_factors: tuple[str, ...] = ()
    """Factors that every given gauge group must have, such as ``SU(2)``. Repeat a factor to require it more than once.
    """
    limits: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Size limits; see :class:`~steelyard.domains.theories.model.limits.Limits`."""
    reward: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Reward settings; see :class:`~steelyard.domains.theories.reward.reward.TheoryReward`."""
    constrained: bool = True
    """Whether the grammar constrains sampling to valid theories. If not, invalid texts are rejected."""
    max_example_words: int = 120
    """Maximum number of words in a warm-start example. Long starting points may exceed this limit."""
    curriculum_tasks: int = 0
    """Number of training tasks over which the harder half of the difficulty levels is introduced, one level at a time.
    0 uses all levels from the start.
    """
    seed: int = 0
    """Seed for the task order; does not affect the splits."""

    def __post_init__(self) -> None:
        for name in ("kinds", "required_factors"):
            if isinstance(given := getattr(self, name), str):
                raise ConfigError(f'theories: {name} = "{given}" must be a list; write {name} = ["{given}"]')
        object.__setattr__(self, "kinds", tuple(self.kinds))
        object.__setattr__(self, "required_factors", tuple(self.required_factors))
        unknown = [kind for kind in self.kinds if kind not in STARTING_POINTS]
        if unknown or not self.kinds or len(set(self.kinds)) < len(self.kinds):
            raise ConfigError(
                f"theories: kinds = {list(self.kinds)} must list one or more of {', '.join(STARTING_POINTS)}, each once"
            )
        factors = [group_word(n) for n in range(1, self.bounds.largest + 1)]
        if outside := [factor for factor in self.required_factors if factor not in factors]:
            raise ConfigError(
                f"theories: required_factors = {outside} is outside the limits; choose from {', '.join(factors)}"
            )
        if self.curriculum_tasks < 0:
            raise ConfigError(
                f"theories: curriculum_tasks = {self.curriculum_tasks} must be a non-negative number of training tasks"
            )
        reward_from_options(self.reward)
        self._require_starting_points()

    def _require_starting_points(self) -> None:
        """Check that every kind has a starting point for training and that all of them fit the limits."""
        for kind in self.kinds:
            if kind not in self._starting_points["train"]:
                raise ConfigError(
                    f"theories: limits.groups = {self.bounds.groups}, limits.abelian = {self.bounds.abelian}, "
                    f"limits.largest = {self.bounds.largest} and required_factors = {list(self.required_factors)} "
                    f"leave no starting point of kind {kind!r}; raise a limit, require fewer factors, or drop this kind"
                )
        for starting_point in itertools.chain.from_iterable(self._interleaved.values()):
            try:
                self.grammar.start(_task(starting_point))
            except ConstraintError as error:
                raise ConfigError(
                    f"theories: kind {starting_point.kind!r} is outside the limits: {error}; raise the limits, or "
                    f"remove {starting_point.kind!r} from kinds"
                ) from None

    @cached_property
    def bounds(self) -> Limits:
        """The parsed limits."""
        return limits_from_options(self.limits)

    @cached_property
    def grammar(self) -> TheoryGrammar:
        return TheoryGrammar(self.bounds)

    def vocabulary(self) -> tuple[str, ...]:
        """Return the special tokens, the kinds of starting points and the words of theories."""
        return (*SPECIAL_TOKENS, *STARTING_POINTS, *self.grammar.alphabet())

    def size(self, split: Split) -> int | None:
        """Return the number of tasks. Training is unlimited; the other splits contain each starting point once."""
        return None if split == "train" else len(self._interleaved[split])

    def task(self, split: Split, index: int) -> Task:
        """Return a task. Training alternates between kinds and reshuffles each kind when it is exhausted or a level is
        added.
        """
        if split != "train":
            return _task(self._interleaved[split][index])
        levels = self._levels
        late_levels = len(levels) // 2
        introduced_at = [-(-number * self.curriculum_tasks // late_levels) for number in range(1, late_levels + 1)]
        introduced = sum(index >= at for at in introduced_at)
        phase_start = introduced_at[introduced - 1] if introduced else 0
        return self._shuffled(levels[len(levels) - late_levels + introduced - 1], index - phase_start)

    def _shuffled(self, hardest: float, index: int) -> Task:
        """Return training task ``index`` among those with a difficulty of at most ``hardest``."""
        kinds = self._starting_points["train"].values()
        by_kind = [easy for points in kinds if (easy := [point for point in points if point.difficulty <= hardest])]
        position, kind = divmod(index, len(by_kind))
        epoch, position = divmod(position, len(by_kind[kind]))
        order = np.random.default_rng([self.seed, kind, epoch]).permutation(len(by_kind[kind]))
        return _task(by_kind[kind][order[position]])

    def describe(self, task: Task) -> str:
        return describe(task.spec)

    def scorer(self) -> TheoryScorer:
        return TheoryScorer(self.bounds, reward_from_options(self.reward))

    def verifier(self) -> FunctionVerifier:
        return self.scorer().verifier()

    @cached_property
    def _artifacts(self) -> TheoryArtifacts:
        judge = self.scorer()
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
        """Render theories; ``by`` has no effect."""
        return self._artifacts.render(artifacts, form, scale=scale, title=title)

    def export(self, text: str, form: str, *, name: str) -> dict[str, bytes]:
        return self._artifacts.export(text, form, name=name)

    def report(self, text: str, spec: Mapping[str, Any] | None = None) -> Report:
        return self._artifacts.report(text, spec)

    def summary(self, artifacts: Sequence[Artifact], *, title: str = "") -> Summary:
        """Catalogue the distinct theories in a set of samples."""
        return summarise(artifacts, read, title=title)

    def automaton(self) -> TheoryGrammar | None:
        return self.grammar if self.constrained else None

    def example(self, index: int, *, seed: int = 0) -> tuple[Task, str]:
        """Return a training task of any difficulty and a random theory for it, determined by ``index`` and ``seed``."""
        task = self._shuffled(self._levels[-1], index)
        least = self.grammar.shortest_end(self.grammar.start(task))
        max_words = max(self.max_example_words, least + len(str(task.spec["given"]).split()))
        return task, random_theory(self.grammar, task, np.random.default_rng([seed, index]), max_words=max_words)

    def examples(self, *, seed: int = 0) -> Iterator[tuple[Task, str]]:
        """Yield an endless stream of training tasks with random theories for the warm start."""
        return (self.example(index, seed=seed) for index in itertools.count())

    @cached_property
    def _starting_points(self) -> dict[Split, dict[str, list[StartingPoint]]]:
        return starting_points_by_split(self.kinds, self.bounds, self.required_factors)

    @cached_property
    def _levels(self) -> list[float]:
        """Difficulty levels of the training tasks, easiest first."""
        return sorted({point.difficulty for points in self._starting_points["train"].values() for point in points})

    @cached_property
    def _interleaved(self) -> dict[Split, list[StartingPoint]]:
        """Starting points by split, shuffled within each kind; kinds alternate until they are exhausted."""
        by_split: dict[Split, list[StartingPoint]] = {}
        for number, split in enumerate(SPLITS):
            shuffled: list[list[StartingPoint]] = []
            for kind, points in enumerate(self._starting_points[split].values()):
                order = np.random.default_rng([self.seed, number, kind]).permutation(len(points))
                shuffled.append([points[index] for index in order])
            rounds = itertools.zip_longest(*shuffled)
            by_split[split] = [point for points in rounds for point in points if point is not None]
        return by_split


def _task(starting_point: StartingPoint) -> Task:
    return Task(starting_point.id, starting_point.kind, starting_point.spec, starting_point.difficulty)
