"""Repair episodes: the policy builds a structure, reads the findings about it, and builds again.

An episode has up to ``builds`` turns, each a complete structure. The episode ends with the first structure that
succeeds, or after ``builds`` structures. Its total reward is that of its last structure; the reward of each turn is the
improvement over the previous structure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from steelyard.constraints.automaton import LruCache
from steelyard.domains.bricks.actions import ActionSpace
from steelyard.domains.bricks.briefs import brief_of
from steelyard.domains.bricks.briefs.solid import largest_component, solid
from steelyard.domains.bricks.builder import build
from steelyard.domains.bricks.domain import Bricks
from steelyard.domains.bricks.reward import BrickScorer
from steelyard.domains.bricks.stability import highs
from steelyard.environments import Answer, Environment, Turns
from steelyard.environments.base import assistant_texts
from steelyard.errors import ConfigError
from steelyard.special_tokens import EOS
from steelyard.types import FinishReason, Reply, Task, Verdict

FINDINGS, REBUILD = "findings", "rebuild"
"""First and last word of the findings in a closed vocabulary."""
AGAIN = "Build it again.\n"
"""The last sentence of the findings for a language model."""
WHOLE = 1 - 1e-9
REMEMBERED = 4096
"""Number of structures whose scores a worker caches; the reward of a turn depends on the previous structure's score."""


def finding_words(space: ActionSpace) -> tuple[str, ...]:
    """Return all words that findings can contain."""
    sizes = (
        f"{axis}={size}" for axis, most in zip("xyz", space.world.size, strict=True) for size in range(1, most + 1)
    )
    tenths = (f"purpose={tenth}" for tenth in range(11))
    return (FINDINGS, *tenths, *sizes, "whole", "loose", "stands", "collapses", "skipped", REBUILD)


def findings(space: ActionSpace, text: str, verdict: Verdict) -> str:
    """Describe a structure that did not succeed: its measurements and the solver's result.

    In a closed vocabulary: ``findings purpose=7 x=5 y=2 z=3 whole collapses rebuild``.
    """
    reading, parts = space.read(text), verdict.parts
    x, y, z = solid(reading.structure).shape
    whole = largest_component(reading.structure) > WHOLE
    stands = parts["stability"] == 1.0
    skipped = bool(reading.flaws)
    if space.vocabulary() is None:
        return (
            f"\nIt spans {x} by {y} studs and {z} layers, meets {parts['purpose']:.0%} of the brief, "
            f"{'holds together' if whole else 'consists of loose pieces'} and {'stands' if stands else 'collapses'}."
            f"{' Some bricks could not be placed.' if skipped else ''} {AGAIN}"
        )
    words = [FINDINGS, f"purpose={int(10 * parts['purpose'])}", f"x={x}", f"y={y}", f"z={z}"]
    words += ["whole" if whole else "loose", "stands" if stands else "collapses", *(["skipped"] if skipped else [])]
    return " ".join([*words, REBUILD])


def last_build(text: str) -> str:
    """Return the last structure in the text of an episode."""
    return text.rpartition(AGAIN)[2].rpartition(REBUILD)[2].strip(" ")


class Repair(Environment):
    """Replies to each structure with its findings until one succeeds or ``builds`` structures have been built."""

    name = "bricks-repair"

    def __init__(self, scorer: BrickScorer, builds: int) -> None:
        self.scorer, self.builds, self.floor = scorer, builds, scorer.settings.floor
        self._scored: LruCache[tuple[str, str], Verdict] = LruCache(REMEMBERED)

    def score(self, task: Task, text: str) -> Verdict:
        return self._scored.get((task.id, text), lambda _: self.scorer(task, text))

    def reply(self, task: Task, turns: Turns) -> Answer:
        texts = assistant_texts(turns)
        verdict = self.score(task, texts[-1])
        gained = verdict.reward - (self.score(task, texts[-2]).reward if len(texts) > 1 else 0.0)
        if verdict.success or len(texts) >= self.builds:
            return self._final(verdict, gained, len(texts))
        return Reply.text(findings(self.scorer.action_space, texts[-1], verdict), reward=gained)

    def cut_off(self, task: Task, turns: Turns, limit: FinishReason) -> Answer:
        """Score the last complete structure with a reward of 0, because its turn has already been rewarded."""
        texts = assistant_texts(turns)
        if turns[-1]["role"] == "assistant":
            return super().cut_off(task, turns, limit)
        return self._final(self.score(task, texts[-1]), 0.0, len(texts))

    def _final(self, verdict: Verdict, reward: float, builds: int) -> Verdict:
        return replace(verdict, reward=reward, parts={**verdict.parts, "builds": float(builds)}, steps=())


@dataclass(frozen=True)
class BricksRepair(Bricks):
    """The bricks domain with several builds per task: the policy reads the findings about each failed build."""

    builds: int = 3
    """Maximum number of structures per task."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.builds < 1:
            raise ConfigError(f"bricks-repair: builds={self.builds} must be at least 1")
        if self.reward_settings.step_rewards:
            raise ConfigError(
                "bricks-repair: reward.step_rewards=true does not work with turn rewards; set it to false"
            )

    @property
    def name(self) -> str:
        return "bricks-repair"

    def vocabulary(self) -> tuple[str, ...] | None:
        """The words of the bricks domain, then those of findings."""
        words = super().vocabulary()
        return None if words is None else tuple(dict.fromkeys((*words, *finding_words(self.action_space))))

    def verifier(self) -> Any:
        if self.reward_settings.method == "highs":
            highs.require()
        return self._environment

    def to_text(self, text: str) -> str:
        return super().to_text(last_build(text))

    def examples(self, *, seed: int = 0) -> Iterator[tuple[Task, str]]:
        """Yield examples of all turns: the prompts of later turns contain failed structures and their findings."""
        for index, (task, text) in enumerate(super().examples(seed=seed)):
            rng = np.random.default_rng([seed, index, self.builds])
            yield self._after_failures(task, int(rng.integers(self.builds)), rng), text

    @cached_property
    def _environment(self) -> Repair:
        return Repair(self.scorer(), self.builds)

    def _after_failures(self, task: Task, count: int, rng: np.random.Generator) -> Task:
        """Extend the prompt with up to ``count`` imperfect structures that fail, each with its findings."""
        prompt = task.prompt
        for _ in range(count):
            structure = build(brief_of(task.spec), self.world, rng, imperfection=1.0)
            if len(structure) > self.max_bricks:
                continue
            text = self.action_space.write(structure)
            verdict = self._environment.score(task, text)
            if verdict.success:
                continue
            found = findings(self.action_space, text, verdict)
            if isinstance(prompt, str):
                prompt = f"{prompt} {text} {EOS} {found}"
            else:
                answer = {"role": "assistant", "content": text}
                prompt = (*prompt, answer, {"role": "user", "content": found})
        return replace(task, prompt=prompt)
