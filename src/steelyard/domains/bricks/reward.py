"""The reward of a brick structure, in named parts with weights.

- ``purpose``: how far it is what its brief asks for
- ``stability``: 1 if it stands under its loads, else less than a half, the nearer the better
- ``connectivity``: the share of bricks that reach the ground
- ``success``: 1 if it stands, hangs together and fulfils its brief, and nothing of the text had to be passed over
- ``length``: bricks used over ``long``, at most 1
- ``quality``: a penalty, from 0 down to -1, for bricks that were passed over and for parts used

reward = Σ weight · part. Models trained for stability alone drift to heaps that stand and mean nothing, and a length
bonus does not cure it. So by default (``needs_purpose``) stability and connectivity count only as far as the purpose is
served: they are multiplied by it.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from steelyard.domains.bricks.actions import ActionSpace
from steelyard.domains.bricks.briefs import Brief, brief_of
from steelyard.domains.bricks.flaws import Flaw, InvalidStructureError, Reason
from steelyard.domains.bricks.outcome import Outcome, outcome
from steelyard.domains.bricks.stability import Method
from steelyard.domains.bricks.structure import Structure
from steelyard.domains.bricks.text import Reading
from steelyard.errors import ConfigError
from steelyard.suggest import nearest_or_all
from steelyard.types import Task, Verdict
from steelyard.verification import FunctionVerifier

RULES = "1"
"""Counts up when verdicts change for the same settings."""

Settings = TypeVar("Settings", bound="Weights | Penalties | Reward")


def _require_numbers(where: str, settings: Weights | Penalties) -> None:
    for field in fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise ConfigError(f"bricks {where}: {field.name} = {value!r}; it must be a number not below 0")


@dataclass(frozen=True)
class Weights:
    """What each part counts; a structure that succeeds in the fewest bricks gets the sum of the first four."""

    purpose: float = 0.4
    stability: float = 0.2
    connectivity: float = 0.1
    success: float = 0.3
    length: float = 0.0
    quality: float = 0.1

    def __post_init__(self) -> None:
        _require_numbers("weights", self)


@dataclass(frozen=True)
class Penalties:
    """What each brick of a sort takes off ``quality``, which never falls below -1."""

    collision: float = 0.1
    out_of_bounds: float = 0.1
    rejected: float = 0.1
    """Ill formatted, or not in the library."""
    part: float = 0.0
    """Every brick used."""

    def __post_init__(self) -> None:
        _require_numbers("penalties", self)


@dataclass(frozen=True)
class Reward:
    """How structures are judged and what is made of it."""

    weights: Weights = Weights()
    penalties: Penalties = Penalties()
    needs_purpose: bool = True
    long: int = 20
    """So many bricks get the whole length bonus."""
    strict: bool = False
    """Reject a text with any brick that cannot be placed, instead of passing over it."""
    steps: bool = False
    """Give each brick what it adds to the purpose, and the last one the rest: together the reward."""
    method: Method = "highs"
    symmetric: bool = False
    """Ask for the worst of all turns and mirrors, at four times the cost."""

    def __post_init__(self) -> None:
        if self.long < 1:
            raise ConfigError(f"bricks reward: long = {self.long}; it is a number of bricks, at least 1")
        if self.method not in ("highs", "gurobi", "connectivity"):
            raise ConfigError(f"bricks reward: method = {self.method!r}; there are highs, gurobi, connectivity")

    @property
    def floor(self) -> float:
        """The reward of a text without structure: no more than the worst structure gets."""
        return -abs(self.weights.quality)


def reward_of(options: Mapping[str, Any]) -> Reward:
    """A reward from plain data, tables ``weights`` and ``penalties`` within; an unknown name gets a suggestion."""
    plain = dict(options)
    tables = {"weights": Weights, "penalties": Penalties}
    made = {name: _made(table, plain.pop(name), name) for name, table in tables.items() if name in plain}
    return _made(Reward, {**plain, **made}, "reward")


def parts_of(reading: Reading, found: Outcome, reward: Reward) -> dict[str, float]:
    """The parts by name, unweighted."""
    return {
        "purpose": found.purpose,
        "stability": found.stability,
        "connectivity": found.connectivity,
        "success": float(found.success and not reading.flaws),
        "length": min(1.0, len(reading.structure) / reward.long),
        "quality": quality(reading.flaws, len(reading.structure), reward.penalties),
    }


def total(parts: Mapping[str, float], reward: Reward) -> float:
    """The weighted sum, with stability and connectivity multiplied by the purpose if it is needed."""
    share = parts["purpose"] if reward.needs_purpose else 1.0
    factor = {"stability": share, "connectivity": share}
    return sum(getattr(reward.weights, name) * part * factor.get(name, 1.0) for name, part in parts.items())


def quality(flaws: Sequence[Flaw], bricks: int, penalties: Penalties) -> float:
    """Minus the penalties, at most 1 together. Floating bricks are in the structure: connectivity counts them."""
    price = {
        Reason.COLLISION: penalties.collision,
        Reason.OUT_OF_BOUNDS: penalties.out_of_bounds,
        Reason.ILL_FORMATTED: penalties.rejected,
        Reason.NOT_IN_LIBRARY: penalties.rejected,
    }
    return max(-1.0, 0.0 - sum(price.get(flaw.reason, 0.0) for flaw in flaws) - penalties.part * bricks)


def step_rewards(structure: Structure, brief: Brief, weight: float, reward: float) -> list[float]:
    """For each brick ``weight`` times what it adds to the purpose; the last gets what is missing from the reward."""
    worth = [weight * brief.fulfilment(_first(structure, count)) for count in range(len(structure))]
    return [after - before for before, after in zip(worth, [*worth[1:], reward], strict=True)]


@dataclass(frozen=True)
class Scorer:
    """The function behind the verifier: reads a text, judges the structure, adds up its reward."""

    action: ActionSpace
    reward: Reward = Reward()

    def __call__(self, task: Task, text: str) -> Verdict:
        brief, reading = brief_of(task.spec), self.action.read(text)
        refuse(reading, strict=self.reward.strict)
        found = outcome(reading.structure, brief, method=self.reward.method, symmetric=self.reward.symmetric)
        parts = parts_of(reading, found, self.reward)
        reward = total(parts, self.reward)
        steps: list[tuple[int, float]] = []
        if self.reward.steps:
            gains = step_rewards(reading.structure, brief, self.reward.weights.purpose, reward)
            ends = self.action.ends(text)
            steps = [(ends[line - 1], gain) for line, gain in zip(reading.lines, gains, strict=True)]
        return Verdict.scored(reward, success=parts["success"] == 1.0, parts=parts, steps=steps)

    def verifier(self) -> FunctionVerifier:
        """Other settings give other verdicts, so they are part of the version."""
        return FunctionVerifier(
            self,
            name="bricks",
            floor=self.reward.floor,
            version=f"{RULES}-{zlib.crc32(repr(self).encode()):08x}",
            deterministic=True,
        )


def refuse(reading: Reading, *, strict: bool) -> None:
    """Raise what rejects a sample: the first flaw of a text without any brick, and if ``strict`` of any text. Bricks
    that float are no reason: they are judged.
    """
    flaws = [flaw for flaw in reading.flaws if flaw.reason is not Reason.FLOATING]
    if flaws and (strict or not reading.structure.bricks):
        raise InvalidStructureError(flaws[0])
    if not reading.structure.bricks:
        raise InvalidStructureError(Flaw(Reason.ILL_FORMATTED, 1, "the text has no brick"))


def _first(structure: Structure, count: int) -> Structure:
    return Structure(structure.bricks[:count], structure.world)


def _made(kind: type[Settings], given: Any, where: str) -> Settings:
    names = [field.name for field in fields(kind)]
    if not isinstance(given, Mapping):
        raise ConfigError(f"bricks reward: {where} is {given!r}; a table with some of {', '.join(names)} is needed")
    for name in given:
        if name not in names:
            raise ConfigError(f"bricks {where}: no setting is called {name!r}; {nearest_or_all(name, names)}")
    return kind(**given)
