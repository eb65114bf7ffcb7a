"""The reward of a brick structure: a weighted sum of named parts.

- ``purpose``: degree to which the form matches the brief, from 0 to 1
- ``stability``: 1 if the structure stands under its loads, otherwise at most 0.5, falling with the largest pull
- ``connectivity``: share of bricks connected to the ground
- ``success``: 1 if the structure stands, is connected and fulfils its brief, and no brick in the text was skipped
- ``length``: number of bricks divided by ``full_length``, at most 1
- ``quality``: penalty between 0 and -1 for skipped bricks and for the number of parts used

reward = Σ weight · part. Models trained for stability alone drift to meaningless heaps, and a length bonus does not
prevent this. By default (``needs_purpose``), stability and connectivity are therefore multiplied by the purpose.
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
"""Version of the scoring rules; increment it when verdicts change for the same settings."""

Settings = TypeVar("Settings", bound="Weights | Penalties | RewardSettings")


def _require_numbers(where: str, settings: Weights | Penalties) -> None:
    for field in fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise ConfigError(f"bricks {where}: {field.name} = {value!r} must be a non-negative number")


@dataclass(frozen=True)
class Weights:
    """Weight of each part. A successful structure without penalties gets the sum of the first four."""

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
    """Amounts subtracted from ``quality`` per brick; ``quality`` never falls below -1."""

    collision: float = 0.1
    out_of_bounds: float = 0.1
    rejected: float = 0.1
    """For a brick that is malformed or not in the library."""
    part: float = 0.0
    """For every brick used."""

    def __post_init__(self) -> None:
        _require_numbers("penalties", self)


@dataclass(frozen=True)
class RewardSettings:
    """How structures are verified and how the reward is computed."""

    weights: Weights = Weights()
    penalties: Penalties = Penalties()
    needs_purpose: bool = True
    """Multiply stability and connectivity by the purpose."""
    full_length: int = 20
    """Number of bricks that earns the full length bonus."""
    strict: bool = False
    """Reject a sample if any brick cannot be placed, instead of skipping that brick."""
    step_rewards: bool = False
    """Give each brick a step reward for its contribution to the purpose; the last brick gets the remainder of the
    reward.
    """
    method: Method = "highs"
    symmetric: bool = False
    """Use the worst result over all rotations and reflections, at four times the cost."""

    def __post_init__(self) -> None:
        if self.full_length < 1:
            raise ConfigError(f"bricks reward: full_length = {self.full_length} must be at least 1 brick")
        if self.method not in ("highs", "gurobi", "connectivity"):
            raise ConfigError(
                f"bricks reward: method = {self.method!r} does not exist; choose highs, gurobi or connectivity"
            )

    @property
    def floor(self) -> float:
        """Reward of a rejected sample, never above that of the worst structure."""
        return -abs(self.weights.quality)


def parse_reward_settings(options: Mapping[str, Any]) -> RewardSettings:
    """Build settings from plain data with the tables ``weights`` and ``penalties``; suggest a name for a typo."""
    plain = dict(options)
    tables = {"weights": Weights, "penalties": Penalties}
    built = {name: _build(table, plain.pop(name), name) for name, table in tables.items() if name in plain}
    return _build(RewardSettings, {**plain, **built}, "reward")


def reward_parts(reading: Reading, found: Outcome, settings: RewardSettings) -> dict[str, float]:
    """Compute the unweighted parts by name."""
    return {
        "purpose": found.purpose,
        "stability": found.stability,
        "connectivity": found.connectivity,
        "success": float(found.success and not reading.flaws),
        "length": min(1.0, len(reading.structure) / settings.full_length),
        "quality": quality(reading.flaws, len(reading.structure), settings.penalties),
    }


def total_reward(parts: Mapping[str, float], settings: RewardSettings) -> float:
    """Return the weighted sum, with stability and connectivity multiplied by the purpose if ``needs_purpose``."""
    share = parts["purpose"] if settings.needs_purpose else 1.0
    factor = {"stability": share, "connectivity": share}
    return sum(getattr(settings.weights, name) * part * factor.get(name, 1.0) for name, part in parts.items())


def quality(flaws: Sequence[Flaw], bricks: int, penalties: Penalties) -> float:
    """Return the negative sum of the penalties, at least -1. Floating bricks only count in ``connectivity``."""
    price = {
        Reason.COLLISION: penalties.collision,
        Reason.OUT_OF_BOUNDS: penalties.out_of_bounds,
        Reason.ILL_FORMATTED: penalties.rejected,
        Reason.NOT_IN_LIBRARY: penalties.rejected,
    }
    return max(-1.0, 0.0 - sum(price.get(flaw.reason, 0.0) for flaw in flaws) - penalties.part * bricks)


def step_rewards(structure: Structure, brief: Brief, weight: float, reward: float) -> list[float]:
    """Give each brick ``weight`` times its gain in purpose, and the last brick the remainder of the reward."""
    potential = [weight * brief.fulfilment(_prefix(structure, count)) for count in range(len(structure))]
    return [after - before for before, after in zip(potential, [*potential[1:], reward], strict=True)]


@dataclass(frozen=True)
class BrickScorer:
    """The verifier's scoring function: reads the text, evaluates the structure and computes its reward."""

    action_space: ActionSpace
    settings: RewardSettings = RewardSettings()

    def __call__(self, task: Task, text: str) -> Verdict:
        brief, reading = brief_of(task.spec), self.action_space.read(text)
        require_valid(reading, strict=self.settings.strict)
        found = outcome(reading.structure, brief, method=self.settings.method, symmetric=self.settings.symmetric)
        parts = reward_parts(reading, found, self.settings)
        reward = total_reward(parts, self.settings)
        steps: list[tuple[int, float]] = []
        if self.settings.step_rewards:
            gains = step_rewards(reading.structure, brief, self.settings.weights.purpose, reward)
            ends = self.action_space.ends(text)
            steps = [(ends[line - 1], gain) for line, gain in zip(reading.lines, gains, strict=True)]
        return Verdict.scored(reward, success=parts["success"] == 1.0, parts=parts, steps=steps)

    def verifier(self) -> FunctionVerifier:
        """Build the verifier, whose version includes the settings because they affect verdicts."""
        return FunctionVerifier(
            self,
            name="bricks",
            floor=self.settings.floor,
            version=f"{RULES}-{zlib.crc32(repr(self).encode()):08x}",
            deterministic=True,
        )


def require_valid(reading: Reading, *, strict: bool) -> None:
    """Raise :class:`InvalidStructureError` with the first flaw if there are no bricks or, with ``strict``, on any flaw.

    Floating bricks do not cause a rejection; they lower the reward.
    """
    flaws = [flaw for flaw in reading.flaws if flaw.reason is not Reason.FLOATING]
    if flaws and (strict or not reading.structure.bricks):
        raise InvalidStructureError(flaws[0])
    if not reading.structure.bricks:
        raise InvalidStructureError(Flaw(Reason.ILL_FORMATTED, 1, "the text has no brick"))


def _prefix(structure: Structure, count: int) -> Structure:
    return Structure(structure.bricks[:count], structure.world)


def _build(kind: type[Settings], given: Any, where: str) -> Settings:
    names = [field.name for field in fields(kind)]
    if not isinstance(given, Mapping):
        raise ConfigError(f"bricks reward: {where} = {given!r} must be a table with keys from {', '.join(names)}")
    for name in given:
        if name not in names:
            raise ConfigError(f"bricks {where}: unknown setting {name!r}; {nearest_or_all(name, names)}")
    return kind(**given)
