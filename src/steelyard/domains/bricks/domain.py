"""The bricks domain: a brief asks for a structure with a purpose; it must stand, hang together and serve it."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from steelyard.constraints.automaton import Automaton
from steelyard.domains.artifacts import Artifact, ColourBy, Report
from steelyard.domains.base import Domain, Split
from steelyard.domains.bricks.actions import Absolute, ActionSpace, Lines, Relative, TwoStep
from steelyard.domains.bricks.artifacts import EXPORTS, PICTURES, BrickArtifacts
from steelyard.domains.bricks.briefs import (
    COUNTABLE,
    KINDS,
    Brief,
    Caption,
    brief_of,
    catalogue,
    in_turn,
    read_captions,
)
from steelyard.domains.bricks.builder import IMPERFECTION, build
from steelyard.domains.bricks.reward import Scorer, reward_of
from steelyard.domains.bricks.stability import highs
from steelyard.domains.bricks.structure import Structure, World
from steelyard.errors import ConfigError, ConstraintError
from steelyard.special_tokens import SPECIAL_TOKENS
from steelyard.types import Prompt, Task
from steelyard.verification import FunctionVerifier

ACTIONS: dict[str, Callable[..., ActionSpace]] = {
    "relative": Relative,
    "two_step": TwoStep,
    "absolute": Absolute,
    "text": Lines,
}
"""Action spaces by name; each is made for a world and a number of bricks, with options of its own."""
SPLITS: tuple[Split, ...] = ("train", "validation", "held_out")
TRIES = 50
"""How often an example is built anew that came out too large."""

INSTRUCTION = (
    "Answer with one brick a line, bottom up: hxw (x,y,z) is h studs along x, w along y, one layer tall, lowest corner "
    "x,y, layer z. Layer 0 is on the ground. World: {size}. Parts, also turned: {parts}."
)
"""For language models: the same in every prompt, and short, since each update reads it once more for each sample."""
PROMPTS: dict[str, Callable[[str, str], Prompt]] = {
    "chat": lambda what, how: ({"role": "system", "content": how}, {"role": "user", "content": what}),
    "message": lambda what, how: ({"role": "user", "content": f"{what}\n{how}"},),
    "plain": lambda what, how: f"{what}\n{how}\n",
}
"""How a language model is told what to build and how to write it. In ``chat`` the how is the system message, where many
templates would otherwise put one of their own; ``message`` is for templates that know none, ``plain`` for no template.
"""


@dataclass(frozen=True)
class Bricks(Domain):
    """Training tasks have no end and come from all kinds in turn; validation and held-out have each brief once."""

    picture_formats: ClassVar = PICTURES
    export_formats: ClassVar = tuple(EXPORTS)

    kinds: tuple[str, ...] = COUNTABLE
    action: str = "two_step"
    action_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the space takes besides world and most: ``may_float``, and for ``two_step`` also ``reach`` and ``joint``."""
    prompt_form: str = "chat"
    """For language models: ``chat``, ``message`` or ``plain``, see ``PROMPTS``."""
    constrained: bool = True
    """Let through only bricks that can be placed. If not, what cannot be placed is passed over and costs quality."""
    most: int = 40
    """The most bricks of a structure."""
    world_size: tuple[int, int, int] = (20, 20, 20)
    """Cells of the world along x, y and z."""
    easiest: float = 0.0
    hardest: float = 16.0
    """Difficulty is about how many bricks it takes; captions may be of any."""
    seed: int = 0
    """Decides the order of tasks, not their split."""
    captions: str = ""
    """A file in the schema of StableText2Brick, for the kind ``caption``."""
    most_captions: int | None = None
    """How many of its structures are read; all if left out. Those with more than ``most`` bricks are not asked for."""
    reward: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings of :class:`steelyard.domains.bricks.reward.Reward` by name, ``weights`` and ``penalties`` as tables."""
    imperfection: float = IMPERFECTION
    """How often an example for the warm start is spoilt."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        object.__setattr__(self, "world_size", tuple(self.world_size))
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown or not self.kinds or len(set(self.kinds)) < len(self.kinds):
            raise ConfigError(f"bricks: kinds={list(self.kinds)}; choose some of {', '.join(KINDS)}, each once")
        if self.action not in ACTIONS:
            raise ConfigError(f"bricks: action={self.action!r}; there are: {', '.join(ACTIONS)}")
        if self.prompt_form not in PROMPTS:
            raise ConfigError(f"bricks: prompt_form={self.prompt_form!r}; there are: {', '.join(PROMPTS)}")
        if (Caption.kind in self.kinds) is not bool(self.captions):
            raise ConfigError(f"bricks: captions={self.captions!r}; a file of captions goes with the kind 'caption'")
        _require_options(self.action, self.action_options)
        _world(self.world_size)
        if self.action_space.vocabulary() is not None and self.captions:
            raise ConfigError(f"bricks: captions are free text, and action={self.action!r} has a closed vocabulary")
        reward_of(self.reward)

    @cached_property
    def world(self) -> World:
        return _world(self.world_size)

    @cached_property
    def action_space(self) -> ActionSpace:
        """The action space, made for the world."""
        try:
            return ACTIONS[self.action](self.world, self.most, **self.action_options)
        except ConstraintError as error:
            raise ConfigError(f"bricks: action {self.action!r}: {error}") from None

    def vocabulary(self) -> tuple[str, ...] | None:
        """Special tokens, the words of all briefs, the words of the action space."""
        return self._vocabulary

    def size(self, split: Split) -> int | None:
        """Every brief once in validation and held-out; training has no end."""
        return None if split == "train" else len(self._in_turn[split])

    def task(self, split: Split, index: int) -> Task:
        brief = self.brief(split, index)
        return Task(brief.id, self.prompt(brief), brief.spec, brief.difficulty)

    def brief(self, split: Split, index: int) -> Brief:
        """Brief number ``index``: for training in turn from every kind, each kind shuffled anew when it is used up."""
        if split != "train":
            return self._in_turn[split][index]
        by_kind = self._briefs["train"]
        place, kind = divmod(index, len(by_kind))
        briefs = list(by_kind.values())[kind]
        epoch, place = divmod(place, len(briefs))
        return briefs[np.random.default_rng([self.seed, kind, epoch]).permutation(len(briefs))[place]]

    def prompt(self, brief: Brief) -> Prompt:
        """The brief's words for a closed vocabulary, an instruction for language models."""
        if self._vocabulary is not None:
            return " ".join(brief.words())
        how = INSTRUCTION.format(size="x".join(map(str, self.world_size)), parts=self.world.library.in_short())
        return PROMPTS[self.prompt_form](f"Build {brief.sentence()}.", how)

    def describe(self, task: Task) -> str:
        return brief_of(task.spec).title()

    def scorer(self) -> Scorer:
        return Scorer(self.action_space, reward_of(self.reward))

    def verifier(self) -> FunctionVerifier:
        scorer = self.scorer()
        if scorer.reward.method == "highs":
            highs.require()
        return scorer.verifier()

    def automaton(self) -> Automaton[Any] | None:
        return self.action_space.automaton() if self.constrained else None

    @cached_property
    def _artifacts(self) -> BrickArtifacts:
        return BrickArtifacts(self.action_space, reward_of(self.reward))

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
        return self._artifacts.render(artifacts, form, by=by, scale=scale, title=title)

    def export(self, text: str, form: str, *, name: str) -> dict[str, bytes]:
        return self._artifacts.export(text, form, name=name)

    def report(self, text: str, spec: Mapping[str, Any] | None = None) -> Report:
        return self._artifacts.report(text, spec)

    def with_method(self, method: str) -> Self:
        return replace(self, reward={**self.reward, "method": method})

    def example(self, index: int, *, seed: int = 0) -> tuple[Task, Structure]:
        """Training task number ``index`` and what the imperfect builder makes of it: a function of these numbers. What
        has more than ``most`` bricks is built again.
        """
        task = self.task("train", index)
        rng = np.random.default_rng([seed, index])
        for _ in range(TRIES):
            structure = build(brief_of(task.spec), self.world, rng, imperfection=self.imperfection)
            if len(structure) <= self.most:
                return task, structure
        raise ConfigError(
            f"bricks: most={self.most} is too few for the brief {task.id}, whose examples have more; raise it to twice "
            f"hardest={self.hardest}, or ask for smaller briefs"
        )

    def examples(self, *, seed: int = 0) -> Iterator[tuple[Task, str]]:
        """Training tasks without end, each with a text to begin from."""
        for index in itertools.count():
            task, structure = self.example(index, seed=seed)
            yield task, self.action_space.write(structure)

    @cached_property
    def _vocabulary(self) -> tuple[str, ...] | None:
        words = self.action_space.vocabulary()
        return None if words is None else tuple(dict.fromkeys((*SPECIAL_TOKENS, *self._brief_words(), *words)))

    def _brief_words(self) -> list[str]:
        briefs = [brief for split in SPLITS for found in self._briefs[split].values() for brief in found]
        return list(dict.fromkeys(word for brief in briefs for word in brief.words()))

    @cached_property
    def _briefs(self) -> dict[Split, dict[str, list[Brief]]]:
        read = read_captions(self.captions, limit=self.most_captions) if self.captions else []
        captions = [caption for caption in read if caption.difficulty <= self.most]
        found = catalogue(self.kinds, self.world, easiest=self.easiest, hardest=self.hardest, captions=captions)
        if not found["train"]:
            raise ConfigError(
                f"bricks: no brief of {list(self.kinds)} fits into world_size={list(self.world_size)} with a "
                f"difficulty between easiest={self.easiest} and hardest={self.hardest}"
            )
        return found

    @cached_property
    def _in_turn(self) -> dict[Split, list[Brief]]:
        return {split: in_turn(self._shuffled(split)) for split in SPLITS}

    def _shuffled(self, split: Split) -> dict[str, list[Brief]]:
        shuffled: dict[str, list[Brief]] = {}
        for number, (kind, briefs) in enumerate(self._briefs[split].items()):
            order = np.random.default_rng([self.seed, number, SPLITS.index(split)]).permutation(len(briefs))
            shuffled[kind] = [briefs[place] for place in order]
        return shuffled


def _world(size: tuple[int, int, int]) -> World:
    try:
        return World(size)
    except ValueError as error:
        raise ConfigError(f"bricks: world_size={list(size)}: {error}") from None


def _require_options(action: str, options: Mapping[str, Any]) -> None:
    signature = inspect.signature(ACTIONS[action])
    try:
        signature.bind(None, 1, **options)
    except TypeError as error:
        accepted = ", ".join(list(signature.parameters)[2:]) or "none"
        raise ConfigError(f"bricks: action {action!r}: {error}; its options are: {accepted}") from None
