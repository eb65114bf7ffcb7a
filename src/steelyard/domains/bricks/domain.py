"""The bricks domain: build a connected, stable structure that fulfils a brief."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from steelyard.constraints.automaton import Automaton
from steelyard.domains.base import Split
from steelyard.domains.bricks.actions import Absolute, ActionSpace, Lines, Relative, TwoStep
from steelyard.domains.bricks.artifacts import BrickArtifacts
from steelyard.domains.bricks.briefs import (
    GRID_KINDS,
    KINDS,
    Brief,
    Caption,
    brief_of,
    catalogue,
    interleaved,
    read_captions,
)
from steelyard.domains.bricks.builder import IMPERFECTION, build
from steelyard.domains.bricks.reward import BrickScorer, RewardSettings, parse_reward_settings
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
"""Action spaces by name. Each action space takes the world, the maximum number of bricks, and its own options."""
SPLITS: tuple[Split, ...] = ("train", "validation", "held_out")
MAX_BUILD_ATTEMPTS = 50
"""Maximum number of times to rebuild an example that is too large."""

INSTRUCTION = (
    "Answer with one brick a line, bottom up: hxw (x,y,z) is h studs along x, w along y, one layer tall, lowest corner "
    "x,y, layer z. Layer 0 is on the ground. World: {size}. Parts, also turned: {parts}."
)
"""The instruction for language models. The instruction is short because every update processes it once per sample."""
PROMPTS: dict[str, Callable[[str, str], Prompt]] = {
    "chat": lambda brief, how: ({"role": "system", "content": how}, {"role": "user", "content": brief}),
    "message": lambda brief, how: ({"role": "user", "content": f"{brief}\n{how}"},),
    "plain": lambda brief, how: f"{brief}\n{how}\n",
}
"""Prompt forms for language models. ``chat`` puts the instruction into the system message, which many chat templates
would otherwise fill with their own text. ``message`` is for templates without a system role, ``plain`` for models
without a chat template.
"""


@dataclass(frozen=True)
class Bricks(BrickArtifacts):
    """The bricks domain: structures that fulfil briefs. Training tasks are endless and cycle through the kinds of
    briefs; the validation and held-out splits contain every brief once.
    """

    kinds: tuple[str, ...] = GRID_KINDS
    action: str = "two_step"
    action_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Additional action space options: ``may_float``, and for ``two_step`` also ``reach`` and ``joint``."""
    prompt_form: str = "chat"
    """Prompt form for language models: ``chat``, ``message`` or ``plain`` (see ``PROMPTS``)."""
    constrained: bool = True
    """Allow only bricks that can be placed. If false, other bricks are skipped and lower ``quality``."""
    max_bricks: int = 40
    """Maximum number of bricks per structure."""
    world_size: tuple[int, int, int] = (20, 20, 20)
    """Size of the world along x, y and z, in cells."""
    min_difficulty: float = 0.0
    max_difficulty: float = 16.0
    """Difficulty range, measured roughly by the number of bricks needed. The range does not apply to captions."""
    seed: int = 0
    """Determines the order of tasks, not their split."""
    captions: str = ""
    """Caption file in the schema of StableText2Brick, for the kind ``caption``."""
    max_captions: int | None = None
    """Maximum number of structures to read from ``captions``; any with over ``max_bricks`` bricks are skipped."""
    reward: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings of :class:`steelyard.domains.bricks.reward.RewardSettings`; ``weights`` and ``penalties`` are tables."""
    imperfection: float = IMPERFECTION
    """Probability that an example for the warm start contains mistakes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        object.__setattr__(self, "world_size", tuple(self.world_size))
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown or not self.kinds or len(set(self.kinds)) < len(self.kinds):
            raise ConfigError(
                f"bricks: kinds={list(self.kinds)} is invalid; choose from {', '.join(KINDS)}, each at most once"
            )
        if self.action not in ACTIONS:
            raise ConfigError(f"bricks: action={self.action!r} does not exist; choose one of {', '.join(ACTIONS)}")
        if self.prompt_form not in PROMPTS:
            raise ConfigError(
                f"bricks: prompt_form={self.prompt_form!r} does not exist; choose one of {', '.join(PROMPTS)}"
            )
        if (Caption.kind in self.kinds) is not bool(self.captions):
            raise ConfigError(
                f"bricks: captions={self.captions!r} with kinds={list(self.kinds)}; set a caption file and the kind "
                f"'caption' together, or neither"
            )
        _require_options(self.action, self.action_options)
        _world(self.world_size)
        if self.action_space.vocabulary() is not None and self.captions:
            raise ConfigError(
                f"bricks: captions are free text, but action={self.action!r} has a closed vocabulary; use action='text'"
            )
        parse_reward_settings(self.reward)

    @cached_property
    def world(self) -> World:
        return _world(self.world_size)

    @cached_property
    def action_space(self) -> ActionSpace:
        try:
            return ACTIONS[self.action](self.world, self.max_bricks, **self.action_options)
        except ConstraintError as error:
            raise ConfigError(f"bricks: action {self.action!r}: {error}") from None

    @cached_property
    def reward_settings(self) -> RewardSettings:
        return parse_reward_settings(self.reward)

    def vocabulary(self) -> tuple[str, ...] | None:
        """The special tokens, the words of all briefs, then the words of the action space."""
        return self._vocabulary

    def size(self, split: Split) -> int | None:
        return None if split == "train" else len(self._evaluation_briefs[split])

    def task(self, split: Split, index: int) -> Task:
        brief = self.brief(split, index)
        return Task(brief.id, self.prompt(brief), brief.spec, brief.difficulty)

    def brief(self, split: Split, index: int) -> Brief:
        """Return brief ``index``. Training cycles through the kinds and reshuffles a kind once it is exhausted."""
        if split != "train":
            return self._evaluation_briefs[split][index]
        by_kind = self._briefs["train"]
        position, kind = divmod(index, len(by_kind))
        briefs = list(by_kind.values())[kind]
        epoch, position = divmod(position, len(briefs))
        return briefs[np.random.default_rng([self.seed, kind, epoch]).permutation(len(briefs))[position]]

    def prompt(self, brief: Brief) -> Prompt:
        """Return the brief's words for a closed vocabulary, or an instruction for a language model."""
        if self._vocabulary is not None:
            return " ".join(brief.words())
        how = INSTRUCTION.format(size="x".join(map(str, self.world_size)), parts=self.world.library.summary())
        return PROMPTS[self.prompt_form](f"Build {brief.sentence()}.", how)

    def describe(self, task: Task) -> str:
        return brief_of(task.spec).title()

    def scorer(self) -> BrickScorer:
        """Return the scoring function used by the verifier."""
        return BrickScorer(self.action_space, self.reward_settings)

    def verifier(self) -> FunctionVerifier:
        if self.reward_settings.method == "highs":
            highs.require()
        return self.scorer().verifier()

    def automaton(self) -> Automaton[Any] | None:
        return self.action_space.automaton() if self.constrained else None

    def with_method(self, method: str) -> Self:
        return replace(self, reward={**self.reward, "method": method})

    def example(self, index: int, *, seed: int = 0) -> tuple[Task, Structure]:
        """Return training task ``index`` with a structure from the imperfect builder. The result depends only on
        ``index`` and ``seed``. A structure with more than ``max_bricks`` bricks is rebuilt.
        """
        task = self.task("train", index)
        rng = np.random.default_rng([seed, index])
        for _ in range(MAX_BUILD_ATTEMPTS):
            structure = build(brief_of(task.spec), self.world, rng, imperfection=self.imperfection)
            if len(structure) <= self.max_bricks:
                return task, structure
        raise ConfigError(
            f"bricks: max_bricks={self.max_bricks} is too small for the brief {task.id}, whose examples need "
            "more bricks; raise it "
            f"to twice max_difficulty={self.max_difficulty}, or lower max_difficulty"
        )

    def examples(self, *, seed: int = 0) -> Iterator[tuple[Task, str]]:
        """Yield training tasks endlessly, each with an example answer."""
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
        read = read_captions(self.captions, limit=self.max_captions) if self.captions else []
        captions = [caption for caption in read if caption.difficulty <= self.max_bricks]
        found = catalogue(
            self.kinds,
            self.world,
            min_difficulty=self.min_difficulty,
            max_difficulty=self.max_difficulty,
            captions=captions,
        )
        if not found["train"]:
            raise ConfigError(
                f"bricks: no brief of {list(self.kinds)} fits into world_size={list(self.world_size)} between "
                f"min_difficulty={self.min_difficulty} and max_difficulty={self.max_difficulty}; widen the range or "
                "enlarge the world"
            )
        return found

    @cached_property
    def _evaluation_briefs(self) -> dict[Split, list[Brief]]:
        return {split: interleaved(self._shuffled(split)) for split in SPLITS}

    def _shuffled(self, split: Split) -> dict[str, list[Brief]]:
        shuffled: dict[str, list[Brief]] = {}
        for number, (kind, briefs) in enumerate(self._briefs[split].items()):
            order = np.random.default_rng([self.seed, number, SPLITS.index(split)]).permutation(len(briefs))
            shuffled[kind] = [briefs[position] for position in order]
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
