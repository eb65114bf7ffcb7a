"""Sessions whose replies depend on all earlier texts; one reply in twenty misbehaves.

A session's behaviour is a function of its seed and the policy's texts, so the expected end of every episode is known.
"""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.verification.misbehaving import ACTS, EXPECTED, FINE, MISBEHAVING, REWARD, Expected
from steelyard.environments import Session, SessionEnvironment
from steelyard.environments.base import assistant_texts
from steelyard.types import FinishReason, Sample, Task

WORDS = ("red", "green", "blue", "grey")
SHARE = 0.05
"""Fraction of replies that misbehave."""
MAX_TURNS = 4
CUT_OFF = 0.25
EXPECTED_ENDS = EXPECTED | {"string": Expected("unscored", "bad return")}
"""In an episode, a returned string is a reply; the one used here contains words outside the model's vocabulary."""


class Step(NamedTuple):
    """A session's behaviour in one turn."""

    act: str
    last: bool


def word(texts: Sequence[str]) -> str:
    """Return a reply that depends on all texts of the policy so far."""
    return WORDS[zlib.crc32("/".join(texts).encode()) % len(WORDS)]


class UnrulySessions(SessionEnvironment):
    """Appends a byte to the file ``log`` for each opened session; a fraction ``share`` of replies misbehaves."""

    def __init__(self, log: Path, share: float = SHARE, kinds: Sequence[str] = MISBEHAVING) -> None:
        self.log, self.share, self.kinds = str(log), share, tuple(kinds)

    def open(self, task: Task, seed: int) -> Session:
        descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, b"x")
        os.close(descriptor)
        return UnrulySession(self, seed)

    def plan(self, seed: int, turn: int) -> Step:
        """Return how the session with this seed behaves in a turn; turns are counted from 0."""
        turns = 1 + random.Random(seed).randrange(MAX_TURNS)
        chance = random.Random(f"{seed} {turn}")
        return Step(chance.choice(self.kinds) if chance.random() < self.share else FINE, turn + 1 == turns)

    def expected_end(self, seed: int, sample: Sample) -> tuple[Expected, bool]:
        """Return how the episode must end, and whether all its replies are those of an undisturbed session."""
        texts = assistant_texts(sample.messages)
        replies = [turn.text for turn in sample.turns if turn.role != "assistant"]
        same = replies == [word(texts[: number + 1]) for number in range(len(replies))]
        if sample.finish != "stop":
            return Expected("scored"), same
        step = self.plan(seed, len(texts) - 1)
        ended = step.act != FINE or step.last
        return EXPECTED_ENDS[step.act] if ended else Expected("continues"), same


class UnrulySession(Session):
    def __init__(self, environment: UnrulySessions, seed: int) -> None:
        self.environment, self.seed = environment, seed
        self.texts: list[str] = []

    def reply(self, text: str) -> Any:
        step = self.environment.plan(self.seed, len(self.texts))
        self.texts.append(text)
        if step.act != FINE:
            return ACTS[step.act]()
        return REWARD if step.last else word(self.texts)

    def cut_off(self, text: str, limit: FinishReason) -> Any:
        return CUT_OFF
