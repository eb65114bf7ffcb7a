"""The theories domain: vacua that break electromagnetism or colour, seesaw masses, and rewards of bad theories."""

from __future__ import annotations

from functools import cache

import numpy as np

from benchmarks.correctness.seam_checks import SeamCheck
from steelyard.domains.theories.domain import Theories
from steelyard.domains.theories.grammar.random_theories import random_theory
from steelyard.domains.theories.grammar.starting_points import standard_model_text
from steelyard.domains.theories.model.known_models import standard_model
from steelyard.domains.theories.model.notation import right
from steelyard.domains.theories.physics.mass_spectrum import spectrum
from steelyard.domains.theories.reward.reward import TheoryScorer
from steelyard.types import Task

UNSEEN = ("1 1 +1", "1 1 +2", "1 3 +2/3", "1 8 0", "2 3 +1/6")
"""Charged or coloured scalars without a mass term."""
BREAKING = ("1 1 +1 c1 1e3", "1 1 -2 c1 1e2", "1 3 +2/3 c1 1e3", "1 1 +1 c1 1e3 S3 1 3 +1/6 c1 1e3")
"""Vacuum expectation values that break electromagnetism, colour, or both."""


def hidden_exotics(quick: bool) -> float:
    """Count the successes of theories with massless charged or coloured scalars whose vacuum breaks EM or colour."""
    del quick
    judge, task = TheoryScorer(), Task("any", "nothing")
    successes = 0
    for vacuum in BREAKING:
        for scalar in UNSEEN:
            number = 3 + vacuum.count("S")
            text = standard_model_text().replace(" MULTIPLETS", f" S2 {vacuum} MULTIPLETS")
            text = text.replace(" INTERACTIONS", f" S{number} {scalar} INTERACTIONS")
            successes += judge(task, text).success
    return float(successes)


def neutrino_error(quick: bool) -> float:
    """Return the largest relative error of m = y² v² / (2 M); 1 for a massless neutrino."""
    del quick
    errors: list[float] = []
    for heavy in (1e10, 1e12, 1e14, 1e16):
        given = standard_model(right("N", "0 1 1", 3), terms=("L N H: 1", f"N N: {heavy}"))
        neutral = [
            own for own in spectrum(given).states if own.kind == "fermion" and own.colour == 1 and not own.charge
        ]
        errors.append(abs(neutral[0].mass * 2 * heavy / 246.0**2 - 1))
    return max(errors)


@cache
def random_groups(groups: int, size: int) -> list[list[float]]:
    """Return the rewards of failed random theories, one list per training task, with default options."""
    domain = Theories()
    judge = domain.scorer()
    found: list[list[float]] = []
    for number in range(groups):
        task, rng = domain.task("train", 37 * number), np.random.default_rng([1, number])
        texts = [random_theory(domain.grammar, task, rng, max_words=domain.max_example_words) for _ in range(size)]
        verdicts = [judge(task, text) for text in texts]
        found.append([verdict.reward for verdict in verdicts if not verdict.success])
    return found


def reinforced_failures(quick: bool) -> float:
    """Return the fraction of random groups in which the median failure has a positive advantage next to one success."""
    import torch

    from steelyard.algorithms.advantages import group_norm

    success = TheoryScorer()(Task("any", "nothing"), standard_model_text()).reward
    groups = random_groups(*((6, 24) if quick else (40, 64)))
    positive = 0
    for failures in groups:
        reward_M = torch.tensor([*failures, success], dtype=torch.float64)
        advantage_M = group_norm(reward_M, torch.zeros(len(reward_M), dtype=torch.long))
        positive += bool(advantage_M[:-1].quantile(0.5) > 0)
    return positive / len(groups)


def below_floor(quick: bool) -> float:
    """Return the fraction of random theories that score below a rejected output."""
    floor = TheoryScorer().verifier().floor
    assert floor is not None
    rewards = [reward for group in random_groups(*((6, 24) if quick else (40, 64))) for reward in group]
    return sum(reward < floor for reward in rewards) / len(rewards)


CHECKS = (
    SeamCheck(
        item="theories: breaking a force does not bypass the exotics condition",
        figure=f"successes among {len(BREAKING) * len(UNSEEN)} theories with massless charged scalars",
        before=15,
        measure=hidden_exotics,
        comparison="<=",
        bar=0,
    ),
    SeamCheck(
        item="theories: a type I seesaw gives neutrinos their mass",
        figure="largest relative error of y² v² / (2 M), M up to 10¹⁶ GeV",
        before=1.0,
        measure=neutrino_error,
        comparison="<=",
        bar=1e-9,
    ),
    SeamCheck(
        item="theories: a typical failure is not reinforced next to a success",
        figure="share of random groups whose median failure has a positive advantage",
        before=1.0,
        measure=reinforced_failures,
        comparison="<=",
        bar=0,
    ),
    SeamCheck(
        item="theories: the floor lies below every theory",
        figure="share of random theories that score below a rejected text",
        before=0.194,
        measure=below_floor,
        comparison="<=",
        bar=0,
    ),
)
