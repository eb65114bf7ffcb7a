"""The reward of a theory as a weighted sum of named parts, and the verifier that computes it.

- ``anomalies``: a bonus for each condition that holds exactly, minus the logarithm of its violation
- ``chirality``: a penalty for gauge factors without chiral multiplets
- ``exotics``: a penalty for light charged or coloured states beyond the Standard Model, larger for lighter states;
  broken electromagnetism or colour gets the largest penalty
- ``length``, ``parameters``: penalties for too many words or free parameters
- ``success``: 1 if the theory meets the success criterion
- ``variety``, if its weight is set: a bonus of at most 1 for successes that are rare in their group
- optional parts in ``extra``: ``standard_model``, ``massless``, ``weak_angle``, ``proton``, or a custom function by
  import path

reward = bounded(Σ weight · part): the sum itself if it is at least 0, otherwise a value above -5. A rejected text gets
-5, so every theory scores higher. ``preset = "published"`` is a corrected version of the published prototype's reward:
all anomaly conditions, no surplus factors, bounded exotics and a bounded sum.
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
from steelyard.domains.theories.model.limits import Limits, limit_violations
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
"""Version of the scoring rules; increase it when verdicts change for the same settings."""
BOUND = 5.0
"""Bound on negative rewards: every reward is at least -BOUND."""
FLOOR = -BOUND
"""Reward of a rejected text: the lower limit of :func:`bounded`, which no theory reaches."""


def bounded(total: float) -> float:
    """Return r for r ≥ 0 and -B |r| / (B + |r|) with B = ``BOUND`` for r < 0.

    The function increases with r, has slope 1 at 0 and tends to -B. Without the bound, a few very bad samples lower the
    mean of a group so far that most failures lie above it and are reinforced, even next to a success.
    """
    return total if total >= 0 else -BOUND * (-total / (BOUND - total))


def _require_numbers(where: str, values: Mapping[str, Any], *, least: float = -math.inf) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < least:
            bound = "" if math.isinf(least) else f" of at least {least:g}"
            raise ConfigError(f"theories {where}: {name} = {value!r} must be a finite number{bound}")


@dataclass(frozen=True)
class Weights:
    """Weights of the parts. Chirality outweighs anomalies because theories without chiral fermions are trivially
    anomaly-free.
    """

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
    """Reward settings of the theories domain."""

    preset: str = ""
    """Name of a preset: empty or ``published``."""
    weights: Weights | None = None
    """Weights of the parts; ``None`` uses those of the preset."""
    extra: Mapping[str, float] = field(default_factory=dict[str, float])
    """Weights of optional parts, by name or import path."""
    max_words: int = 300
    """Number of words above which the length penalty applies."""
    max_parameters: int = 10
    """Number of free parameters above which the penalty applies."""
    variety: float = 0.0
    """Weight of the variety bonus; see :class:`~steelyard.domains.theories.reward.variety.VarietyScorer`."""
    vector_like: bool = False
    """Whether the variety bonus treats theories that differ only in vector-like pairs as different. Extensions of the
    Standard Model often differ only in such pairs.
    """

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise ConfigError(f"theories reward: preset = {self.preset!r} must be empty or 'published'")
        _require_numbers(
            "reward",
            {"max_words": self.max_words, "max_parameters": self.max_parameters, "variety": self.variety},
            least=0,
        )
        if not isinstance(self.vector_like, bool):
            raise ConfigError(f"theories reward: vector_like = {self.vector_like!r} must be true or false")
        _require_numbers("extra", _require_table("extra", self.extra))
        for name in self.extra:
            _extra_part(name)

    def parts(self) -> dict[str, RewardPart]:
        """Return all parts by name."""
        standard: dict[str, RewardPart] = {
            "anomalies": parts.published_anomalies if self.preset == "published" else parts.anomalies,
            "chirality": parts.chirality,
            "exotics": parts.exotics,
            "length": partial(parts.length, max_words=self.max_words),
            "parameters": partial(parts.parameters, max_parameters=self.max_parameters),
            "success": partial(_success, max_words=self.max_words, max_parameters=self.max_parameters),
        }
        return {**standard, **{name: _extra_part(name) for name in self.extra}}

    def total(self, values: Mapping[str, float]) -> float:
        """Return the weighted sum of the parts, bounded from below."""
        weights = {**asdict(self.weights or PRESETS[self.preset]), **self.extra}
        return bounded(sum(weights[name] * value for name, value in values.items()))


PRESETS = {"": Weights(), "published": Weights(chirality=0.0, success=0.0)}


def reward_from_options(options: Mapping[str, Any]) -> TheoryReward:
    """Build a reward from the ``[domain.options.reward]`` table and its ``weights`` and ``extra`` subtables."""
    plain = dict(options)
    if "weights" in plain:
        plain["weights"] = Weights(**_require_known(Weights, plain["weights"], "weights"))
    return TheoryReward(**_require_known(TheoryReward, plain, "reward"))


@dataclass(frozen=True)
class TheoryScorer:
    """The verifier's scoring function: parses a theory text, checks it and computes its reward."""

    limits: Limits = field(default_factory=Limits)
    reward: TheoryReward = field(default_factory=TheoryReward)

    def __call__(self, task: Task, text: str) -> Verdict:
        theory = admitted(task, text, self.limits)
        findings = Findings(theory, len(text.split()))
        values = {name: float(part(findings)) for name, part in self.reward.parts().items()}
        return Verdict.scored(self.reward.total(values), success=values["success"] == 1.0, parts=values)

    def verifier(self) -> FunctionVerifier:
        """Return the verifier, whose version includes all settings because they affect verdicts."""
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
    """Parse the theory text for a task; raise ``Invalid`` with the reason if the grammar would not accept it."""
    words, given = text.split(), str(task.spec.get("given") or "").split()
    terms = str(task.spec.get("terms") or "").split()
    if words[: len(given)] != given:
        raise Invalid(f"the text does not start with the given words: {' '.join(given)}")
    try:
        theory = read(text)
    except DataError as error:
        raise Invalid(str(error)) from None
    begin = words.index(INTERACTIONS) + 1
    if words[begin : begin + len(terms)] != terms:
        raise Invalid(f"the interactions do not start with the given terms: {' '.join(terms)}")
    if wrong := [*flaws(theory), *limit_violations(theory, limits)]:
        raise Invalid("; ".join(wrong))
    if {own.name for own in theory.fermions} <= set(given):
        raise Invalid("no fermion follows the given words" if given else "the theory has no fermion")
    return theory


def _success(findings: Findings, *, max_words: int, max_parameters: int) -> float:
    return float(succeeds(findings, max_words=max_words, max_parameters=max_parameters))


def _extra_part(name: str) -> RewardPart:
    if name in EXTRA:
        return EXTRA[name]
    if ":" not in name:
        raise ConfigError(
            f"theories reward: extra has an unknown part {name!r}; choose from {', '.join(EXTRA)}, or use an import "
            "path such as my_module:my_part"
        )
    return load_function(name)


def _require_table(where: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"theories reward: {where} = {given!r} must be a table that maps names to numbers")
    return cast("Mapping[str, Any]", given)


def _require_known(kind: type, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    names = [one.name for one in fields(kind)]
    for name in _require_table(where, given):
        if name not in names:
            raise ConfigError(f"theories {where}: unknown key {name!r}; {nearest_or_all(name, names)}")
    return dict(given)
