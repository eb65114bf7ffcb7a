"""The reward of a theory, in named parts with weights, and the verifier that gives it.

- ``anomalies``: for each condition a bonus if it holds exactly, less the logarithm of what is missing
- ``chirality``: gauge groups that act on nothing chiral
- ``exotics``: charged or coloured states that would have been seen, the lighter the worse; electromagnetism or colour
  broken is worse than any of them
- ``length``, ``parameters``: words and free numbers beyond what is allowed
- ``success``: 1 for a success, which is a predicate of its own
- ``variety``, if it has a weight: 1 for a success that is like no other of its group, less the more there are like it
- whatever ``extra`` asks for besides: ``standard_model``, ``massless``, ``weak_angle``, ``proton``, or a function of
  yours by its import path

reward = bounded(Σ weight · part): the sum where it is at least 0, and above -5 however bad a theory is. A rejected text
gets -5, so no theory is worth less. ``preset = "published"`` is the reward of the published prototype with its mistakes
mended: all conditions and none of the surplus factors, bounded exotics and a bounded sum.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any, cast

from steelyard.domains.theories.grammar.text import read
from steelyard.domains.theories.grammar.vocabulary import INTERACTIONS
from steelyard.domains.theories.model.limits import Limits, excesses
from steelyard.domains.theories.model.theory import Theory
from steelyard.domains.theories.physics.invariance import flaws
from steelyard.domains.theories.reward import parts
from steelyard.domains.theories.reward.parts import EXTRA, RewardPart
from steelyard.domains.theories.reward.success import Findings, succeeds
from steelyard.domains.theories.reward.variety import VarietyScorer
from steelyard.errors import ConfigError, DataError, Invalid
from steelyard.suggest import nearest_or_all
from steelyard.types import Task, Verdict
from steelyard.verification import FunctionVerifier, load_function, mode_of

RULES = "7"
"""Counts up when verdicts change for the same settings."""
BOUND = 5.0
"""No reward is below minus this."""
FLOOR = -BOUND
"""The reward of a text that is not a theory: the limit of :func:`bounded`, which every theory stays above."""


def bounded(total: float) -> float:
    """r for r ≥ 0, -B |r| / (B + |r|) with B = ``BOUND`` for r < 0.

    It rises with r, has slope 1 at 0 and tends to -B. Without it the worst few of a group lower the mean so far that
    most failures lie above it and are reinforced, next to a success too.
    """
    return total if total >= 0 else -BOUND * (-total / (BOUND - total))


def _require_numbers(where: str, values: Mapping[str, Any], *, least: float = -math.inf) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < least:
            above = "" if math.isinf(least) else f" not below {least:g}"
            raise ConfigError(f"theories {where}: {name} = {value!r}; it must be a number{above}")


@dataclass(frozen=True)
class Weights:
    """What each part counts. Nothing chiral means no anomalies, and has to be worth less than anomalies."""

    anomalies: float = 1.0
    chirality: float = 4.0
    exotics: float = 1.0
    length: float = 1.0
    parameters: float = 1.0
    success: float = 1.0

    def __post_init__(self) -> None:
        _require_numbers("weights", asdict(self))


@dataclass(frozen=True)
class TheoryReward:
    """How theories are judged."""

    preset: str = ""
    """Empty, or ``published``."""
    weights: Weights | None = None
    """``None``: those of the preset."""
    extra: Mapping[str, float] = field(default_factory=dict[str, float])
    """Weights of further parts by name or import path."""
    long: int = 300
    """So many words are no fault."""
    many: int = 10
    """So many free parameters are no fault."""
    variety: float = 0.0
    """Weight of how rare a success is in its group, see :class:`~steelyard.domains.theories.reward.variety.Varied`."""
    vector_like: bool = False
    """Whether vector-like pairs count for that: all that a chiral theory is extended by may be such pairs."""

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise ConfigError(f"theories reward: preset = {self.preset!r}; there is 'published'")
        _require_numbers("reward", {"long": self.long, "many": self.many, "variety": self.variety}, least=0)
        if not isinstance(self.vector_like, bool):
            raise ConfigError(f"theories reward: vector_like = {self.vector_like!r}; it is true or false")
        _require_numbers("extra", _table("extra", self.extra))
        for name in self.extra:
            _extra_part(name)

    def parts(self) -> dict[str, RewardPart]:
        """Every part by name."""
        own: dict[str, RewardPart] = {
            "anomalies": parts.published_anomalies if self.preset == "published" else parts.anomalies,
            "chirality": parts.chirality,
            "exotics": parts.exotics,
            "length": partial(parts.length, long=self.long),
            "parameters": partial(parts.parameters, many=self.many),
            "success": partial(_success, long=self.long, many=self.many),
        }
        return {**own, **{name: _extra_part(name) for name in self.extra}}

    def total(self, values: Mapping[str, float]) -> float:
        """The weighted sum, bounded from below."""
        weights = {**asdict(self.weights or PRESETS[self.preset]), **self.extra}
        return bounded(sum(weights[name] * value for name, value in values.items()))


PRESETS = {"": Weights(), "published": Weights(chirality=0.0, success=0.0)}


def reward_from_options(options: Mapping[str, Any]) -> TheoryReward:
    """A reward from plain data, with tables ``weights`` and ``extra`` within."""
    plain = dict(options)
    if "weights" in plain:
        plain["weights"] = Weights(**_known(Weights, plain["weights"], "weights"))
    return TheoryReward(**_known(TheoryReward, plain, "reward"))


@dataclass(frozen=True)
class Judge:
    """The function behind the verifier: reads a text, looks for what is wrong with it, adds up its reward."""

    limits: Limits = field(default_factory=Limits)
    reward: TheoryReward = field(default_factory=TheoryReward)

    def __call__(self, task: Task, text: str) -> Verdict:
        theory = admitted(task, text, self.limits)
        found = Findings(theory, len(text.split()))
        values = {name: float(part(found)) for name, part in self.reward.parts().items()}
        return Verdict.scored(self.reward.total(values), success=values["success"] == 1.0, parts=values)

    def verifier(self) -> FunctionVerifier:
        """Other settings give other verdicts, so they are part of the version."""
        varied = self.reward.variety > 0
        return FunctionVerifier(
            VarietyScorer(self, self.reward.variety, self.reward.vector_like) if varied else self,
            name="theories",
            mode=mode_of("group" if varied else "one"),
            floor=FLOOR,
            version=f"{RULES}-{zlib.crc32(repr(self).encode()):08x}",
            deterministic=True,
        )


def admitted(task: Task, text: str, limits: Limits) -> Theory:
    """The theory of a text for a task; ``Invalid`` with the reason if the grammar would not have let it through."""
    words, given = text.split(), str(task.spec.get("given") or "").split()
    terms = str(task.spec.get("terms") or "").split()
    if words[: len(given)] != given:
        raise Invalid(f"the text does not begin with what is given: {' '.join(given)}")
    try:
        theory = read(text)
    except DataError as error:
        raise Invalid(str(error)) from None
    begin = words.index(INTERACTIONS) + 1
    if words[begin : begin + len(terms)] != terms:
        raise Invalid(f"the interactions do not begin with what is given: {' '.join(terms)}")
    if wrong := [*flaws(theory), *excesses(theory, limits)]:
        raise Invalid("; ".join(wrong))
    if {own.name for own in theory.fermions} <= set(given):
        raise Invalid("no fermion comes after what is given" if given else "there is no fermion")
    return theory


def _success(found: Findings, *, long: int, many: int) -> float:
    return float(succeeds(found, long=long, many=many))


def _extra_part(name: str) -> RewardPart:
    if name in EXTRA:
        return EXTRA[name]
    if ":" not in name:
        raise ConfigError(
            f"theories reward: extra has no part {name!r}; there are: {', '.join(EXTRA)}, or an import path as "
            "my_module:my_part"
        )
    return load_function(name)


def _table(where: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"theories reward: {where} = {given!r}; it is a table of names and numbers")
    return cast("Mapping[str, Any]", given)


def _known(kind: type, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    names = [one.name for one in fields(kind)]
    for name in _table(where, given):
        if name not in names:
            raise ConfigError(f"theories {where}: no setting is called {name!r}; {nearest_or_all(name, names)}")
    return dict(given)
