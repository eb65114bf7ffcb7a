"""Published outcomes, and equilibria computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.bricks.brick_cases import Case, column, golden
from benchmarks.bricks.weighted_program import assess_weighted
from steelyard.domains.bricks import STANDARD, Brick, Load, Physics, Structure, World, assess, largest_pull
from steelyard.domains.bricks.images import turned
from steelyard.domains.bricks.structure import place

pytest.importorskip("highspy")

CASES = golden()
G, T = 9.8, 0.98
GRAM = {part.name: part.mass for part in STANDARD.parts}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_published_outcomes(case: Case) -> None:
    verdict = assess(case.structure)
    assert verdict.stands is case.stands
    assert verdict.pull / T == pytest.approx(case.score, abs=5e-5)
    assert verdict.score_B.max() == pytest.approx(min(case.score, 1.0), abs=5e-5)
    assert bool(verdict.failing) is not case.stands


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_weighted_program_agrees_on_the_published_outcomes(case: Case) -> None:
    assert assess_weighted(case.structure).stands is case.stands


def test_the_weighted_program_misjudges_a_column() -> None:
    verdict = assess(column())
    assert verdict.stands
    assert verdict.pull / T == pytest.approx(0.0196, abs=5e-5)
    assert not assess_weighted(column()).stands


def test_a_heavy_part_equals_loads_on_its_cells() -> None:
    heavy = CASES[-2].structure
    plain = Structure(heavy.bricks, World(heavy.world.size))
    extra = (0.2 - GRAM["2x2"]) / 4
    top = [Load(x, y, 3, extra) for x in (5, 6) for y in (21, 22)]
    assert largest_pull(plain, top) == pytest.approx(largest_pull(heavy), rel=1e-9)


def test_a_lever_by_hand() -> None:
    """A 2x1 of weight W on a 1x1 of weight w overhangs by a cell, so W acts ½ stud off the centre of the 1x1.

    The four points under the 2x1 carry p at +¼, q at −¼ and r twice at 0: p + q + 2 r = W and ¼ (p − q) = ½ W. The
    tensile force t is smallest for q = r = −t, so p = 2 W − t = W + 3 t and t = W / 4. The same calculation gives (W −
    w) / 4 under the 1x1, which carries W + w.
    """
    structure = place([Brick(1, 1, 0, 0, 0), Brick(2, 1, 0, 0, 1)], World())
    assert largest_pull(structure) == pytest.approx(GRAM["1x2"] * G / 4, rel=1e-9)


def test_an_off_centre_load_by_hand() -> None:
    """The lever with a load F one stud off the centre: p = 2 W + 4 F − t = W + F + 3 t."""
    structure = place([Brick(1, 1, 0, 0, 0), Brick(2, 1, 0, 0, 1)], World())
    expected = (GRAM["1x2"] + 3 * 0.01) * G / 4
    assert largest_pull(structure, [Load(1, 0, 1, 0.01)]) == pytest.approx(expected, rel=1e-9)
    assert largest_pull(*turned(structure, [Load(1, 0, 1, 0.01)])) == pytest.approx(expected, rel=1e-9)


def test_a_straight_tower_has_no_pull() -> None:
    tower = place([Brick(2, 2, 0, 0, z) for z in range(10)], World())
    verdict = assess(tower)
    assert verdict.stands
    assert verdict.pull == pytest.approx(0.0, abs=1e-9)
    assert verdict.score_B.tolist() == [0.0] * 10


def test_forces_balance_the_weight_of_every_brick() -> None:
    """The vertical forces on each brick add up to its weight."""
    structure = CASES[0].structure
    acting = assess(structure).forces
    assert acting is not None
    bricks = len(structure)
    lifted = np.bincount(acting.upper_P, acting.newton_P, bricks)
    pressed = np.bincount(acting.lower_P, acting.newton_P, bricks + 1)[:bricks]
    assert lifted - pressed == pytest.approx(structure.mass_B * G, rel=1e-6)
    assert acting.newton_P.min() == pytest.approx(-0.9007 * T, abs=5e-5)


def test_a_load_on_a_brick_on_the_ground_causes_no_pull() -> None:
    flat = place([Brick(1, 8, 0, 0, 0)], World())
    assert largest_pull(flat, [Load(0, 7, 0, 5.0)]) == pytest.approx(0.0, abs=1e-9)


def test_a_floating_brick_fails_and_the_others_are_analysed_without_it() -> None:
    bricks = [*CASES[1].structure.bricks, Brick(1, 1, 40, 40, 5)]
    verdict = assess(place(bricks, CASES[1].structure.world))
    assert not verdict.stands
    assert math.isinf(verdict.pull)
    assert verdict.failing == (1, 20)


def test_the_capacity_affects_the_verdict() -> None:
    assert assess(CASES[1].structure, physics=Physics(capacity=1.1)).stands
    assert not assess(CASES[0].structure, physics=Physics(capacity=0.85)).stands
