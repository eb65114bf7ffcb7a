"""Properties of briefs and of the reward, on random heaps and random briefs."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.bricks.random_structures import random_structure
from steelyard.domains.bricks import Structure, World
from steelyard.domains.bricks.actions import Lines
from steelyard.domains.bricks.briefs import GRID_KINDS, KINDS, Brief
from steelyard.domains.bricks.briefs.solid import Bools, height_iou, iou, largest_component, middle, ratio, solid
from steelyard.domains.bricks.images import moved
from steelyard.domains.bricks.reward import BrickScorer, RewardSettings
from steelyard.types import Task

WORLD = World((40, 40, 20))
ALL = [brief for kind in GRID_KINDS for brief in KINDS[kind].grid()]
quick = settings(max_examples=60)


@st.composite
def structures(draw: st.DrawFn, *, max_bricks: int = 12, afloat: float = 0.1) -> Structure:
    rng = random.Random(draw(st.integers(0, 2**32)))
    return random_structure(draw(st.integers(1, max_bricks)), rng, WORLD, float_=afloat)


@st.composite
def voxels(draw: st.DrawFn) -> Bools:
    shape = draw(st.tuples(*[st.integers(1, 4)] * 3))
    filled = np.array(draw(st.lists(st.booleans(), min_size=64, max_size=64)), np.bool_)[: np.prod(shape)].reshape(
        shape
    )
    filled[0, 0, 0] = True
    return filled


@quick
@given(structures(), st.sampled_from(ALL))
def test_fulfilment_is_between_0_and_1_and_determines_fulfilled(structure: Structure, brief: Brief) -> None:
    fulfilment = brief.fulfilment(structure)
    assert 0.0 <= fulfilment <= 1.0 + 1e-12
    assert brief.fulfilled(structure) is (fulfilment >= brief.enough - 1e-9)


@quick
@given(structures(), st.sampled_from(ALL), st.integers(-5, 5), st.integers(-5, 5))
def test_fulfilment_does_not_depend_on_the_position(structure: Structure, brief: Brief, dx: int, dy: int) -> None:
    elsewhere, loads = moved(structure, dx, dy, brief.loads(structure))
    assert brief.fulfilment(elsewhere) == brief.fulfilment(structure)
    assert brief.loads(elsewhere) == loads


@quick
@given(structures(), st.sampled_from(ALL), st.integers(0, 2**32))
def test_the_order_of_bricks_does_not_matter(structure: Structure, brief: Brief, seed: int) -> None:
    bricks = list(structure.bricks)
    random.Random(seed).shuffle(bricks)
    other = Structure(tuple(bricks), WORLD)
    assert brief.fulfilment(other) == pytest.approx(brief.fulfilment(structure))
    assert brief.loads(other) == brief.loads(structure)


@quick
@given(structures(), st.sampled_from(ALL))
def test_loads_rest_on_bricks_and_add_up_to_the_load_of_the_brief(structure: Structure, brief: Brief) -> None:
    loads = brief.loads(structure)
    occupied = structure.occupancy() >= 0
    assert all(occupied[load.x, load.y, load.z] and not occupied[load.x, load.y, load.z + 1 :].any() for load in loads)
    if loads:
        assert sum(load.kilograms for load in loads) == pytest.approx(brief.spec["load"] / 1000)


@given(voxels(), voxels())
def test_iou_is_maximised_over_shifts(one: Bools, other: Bools) -> None:
    wide = np.zeros((16, 16, 4), np.bool_)
    wide[6 : 6 + one.shape[0], 6 : 6 + one.shape[1], : one.shape[2]] = one
    best = 0.0
    for dx in range(12):
        for dy in range(12):
            there = np.zeros_like(wide)
            there[dx : dx + other.shape[0], dy : dy + other.shape[1], : other.shape[2]] = other
            best = max(best, float((wide & there).sum() / (wide | there).sum()))
    assert iou(one, other) == pytest.approx(best)
    assert iou(one, one) == 1.0


@given(voxels(), voxels())
def test_height_iou_is_symmetric_and_1_only_for_equal_maps(one: Bools, other: Bools) -> None:
    a, b = one.sum(axis=2), other.sum(axis=2)
    a[-1, -1], b[-1, -1] = 1, 1
    assert height_iou(a, b) == height_iou(b, a)
    assert (height_iou(a, b) == 1.0) is np.array_equal(a, b)


@given(st.integers(1, 50), st.integers(1, 50))
def test_ratio_and_middle(one: int, other: int) -> None:
    assert ratio(one, other) == ratio(other, one) == pytest.approx(min(one, other) / max(one, other))
    assert sum(middle(one)) / len(middle(one)) == (one - 1) / 2
    assert len(middle(one)) == 2 - one % 2


@quick
@given(structures(afloat=0.3))
def test_the_largest_component_matches_a_search(structure: Structure) -> None:
    left, best = set(range(len(structure))), 0
    while left:
        component, edge = set[int](), [left.pop()]
        while edge:
            one = edge.pop()
            component.add(one)
            near = {other for other in left if _touch(structure, one, other)}
            left -= near
            edge += near
        best = max(best, sum(structure.bricks[number].h * structure.bricks[number].w for number in component))
    assert largest_component(structure) == pytest.approx(best / sum(brick.h * brick.w for brick in structure.bricks))


def _touch(structure: Structure, one: int, other: int) -> bool:
    pair = Structure((structure.bricks[one], structure.bricks[other]), structure.world)
    grid = solid(pair).filled_XYZ
    level = abs(pair.bricks[0].z - pair.bricks[1].z) == 1
    return level and bool((grid.sum(axis=2) == 2).any())


@quick
@given(structures(max_bricks=8), st.sampled_from(ALL))
def test_rewards_lie_between_the_floor_and_one(structure: Structure, brief: Brief) -> None:
    pytest.importorskip("highspy")
    scorer = BrickScorer(Lines(WORLD, 40), RewardSettings(step_rewards=True))
    text = scorer.action_space.write(structure)
    verdict = scorer(Task("t", "p", brief.spec), text)
    assert scorer.settings.floor <= verdict.reward <= 1.0 + 1e-9
    assert sum(gain for _, gain in verdict.steps) == pytest.approx(verdict.reward)
    assert [text[:end].count("\n") for end, _ in verdict.steps] == list(range(len(structure)))
    assert verdict.success is (verdict.parts["success"] == 1.0)
    if verdict.success:
        assert verdict.reward == pytest.approx(1.0 if brief.enough == 1.0 else 0.3 + verdict.parts["purpose"] * 0.7)
