"""The builder: correct designs succeed, mistakes usually fail, and every structure can be built in order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmarks.bricks.examples import success_by_kind
from steelyard.config import load
from steelyard.domains.bricks import Brick, Structure, World, floating, parse, write
from steelyard.domains.bricks.briefs import GRID_KINDS, KINDS, Brief, Caption, Shape, Tower, brief_of, catalogue
from steelyard.domains.bricks.builder import (
    build,
    drop,
    misread,
    stop_early,
    without_floating,
)
from steelyard.domains.bricks.designs import DESIGNS, design
from steelyard.domains.bricks.domain import Bricks
from steelyard.domains.bricks.outcome import outcome
from steelyard.domains.bricks.structure import Site, place
from steelyard.errors import ConfigError

WORLD = World()


def some_briefs(kind: str, every: int) -> list[Brief]:
    """Return every n-th brief of a kind from all splits of the default domain."""
    found = catalogue([kind], WORLD, max_difficulty=Bricks.max_difficulty)
    return [brief for kinds in found.values() for briefs in kinds.values() for brief in briefs][::every]


@pytest.mark.parametrize("kind", GRID_KINDS)
def test_every_brief_can_be_fulfilled(kind: str) -> None:
    for number, brief in enumerate(some_briefs(kind, 1)):
        for seed in range(2):
            structure = build(brief, WORLD, np.random.default_rng([seed, number]), imperfection=0.0)
            assert brief.fulfilled(structure), (brief, write(structure))


@pytest.mark.parametrize("kind", GRID_KINDS)
def test_correct_designs_succeed_under_their_loads(kind: str) -> None:
    pytest.importorskip("highspy")
    for number, brief in enumerate(some_briefs(kind, 9)):
        structure = build(brief, WORLD, np.random.default_rng(number), imperfection=0.0)
        assert outcome(structure, brief).success, (brief, write(structure))


def test_between_30_and_50_percent_of_the_examples_succeed() -> None:
    pytest.importorskip("highspy")
    found = success_by_kind(Bricks(), 60 * len(GRID_KINDS))
    assert set(found) == set(GRID_KINDS)
    successes, total = (sum(counts) for counts in zip(*found.values(), strict=True))
    assert total == 60 * len(GRID_KINDS)
    assert 0.3 <= successes / total <= 0.5, found
    for kind, (right, tried) in found.items():
        assert 0.15 <= right / tried <= 0.65, (kind, found)


@pytest.mark.parametrize("recipe", ["bricks", "bricks-text"])
def test_between_30_and_50_percent_of_the_examples_of_recipes_succeed(recipe: str) -> None:
    pytest.importorskip("highspy")
    chosen = load(recipe).domain
    assert chosen is not None
    found = success_by_kind(Bricks(**chosen.options), 420)
    successes, total = (sum(counts) for counts in zip(*found.values(), strict=True))
    assert 0.3 <= successes / total <= 0.5, found


def test_structures_can_be_placed_brick_by_brick_and_never_float() -> None:
    bricks = Bricks(imperfection=0.9)
    for index in range(200):
        _, structure = bricks.example(index)
        assert structure.bricks
        assert place(structure.bricks, WORLD) == structure
        for count in range(1, len(structure) + 1):
            assert not floating(Structure(structure.bricks[:count], WORLD))


def test_examples_depend_only_on_seed_and_index() -> None:
    bricks = Bricks(action="text")

    def texts(count: int, seed: int = 0) -> list[str]:
        return [text for _, text in itertools.islice(bricks.examples(seed=seed), count)]

    assert bricks.example(7, seed=3) == bricks.example(7, seed=3)
    assert texts(30) == texts(30)
    assert texts(30)[:10] == texts(10)
    assert texts(30) != texts(30, seed=1)
    task, text = next(bricks.examples())
    assert parse(text, WORLD) == bricks.example(0)[1]
    assert task == bricks.task("train", 0)


def test_no_example_exceeds_the_maximum_number_of_bricks() -> None:
    small = Bricks(max_difficulty=6.0, max_bricks=8)
    assert max(len(small.example(index)[1]) for index in range(200)) <= 8
    with pytest.raises(ConfigError, match=r"max_bricks=1 is too small for the brief .*; raise it"):
        Bricks(kinds=("wall",), max_bricks=1, imperfection=0.0).example(0)


def test_a_brief_has_many_solutions() -> None:
    for brief in (Tower(6, 2, 4), KINDS["wall"](8, 2, 4), KINDS["bridge"](4, 3, 2, 50), Shape(2, (2, 3, 1))):
        texts = {
            write(build(brief, WORLD, np.random.default_rng(n), imperfection=0.0, max_offset=0)) for n in range(40)
        }
        assert len(texts) >= 10, brief


def test_structures_stay_near_the_centre_of_the_world() -> None:
    column = Tower(3, 1, 1)
    places = {
        build(column, WORLD, np.random.default_rng(n), imperfection=0.0, max_offset=1).bricks[0][2:4] for n in range(60)
    }
    assert places == {(x, y) for x in (8, 9, 10) for y in (8, 9, 10)}
    tight = World((1, 1, 3))
    assert build(column, tight, np.random.default_rng(0), imperfection=0.0).bricks[0] == Brick(1, 1, 0, 0, 0)
    with pytest.raises(ValueError, match="does not fit into a world"):
        build(Tower(4, 1, 1), tight, np.random.default_rng(0), imperfection=0.0)


def test_a_hanging_brick_follows_its_support() -> None:
    hanging = Brick(1, 1, 3, 0, 1)
    gate = [Brick(4, 1, 0, 0, 2), hanging, Brick(1, 1, 0, 0, 1), Brick(1, 1, 0, 0, 0)]
    assert without_floating(gate, WORLD).bricks == (gate[3], gate[2], gate[0], hanging)


def test_floating_bricks_are_removed() -> None:
    assert without_floating([Brick(1, 1, 5, 5, 3), Brick(1, 1, 0, 0, 0)], WORLD).bricks == (Brick(1, 1, 0, 0, 0),)


def test_mistakes_by_hand() -> None:
    rng = np.random.default_rng(0)
    column = [Brick(1, 1, 0, 0, z) for z in range(6)]
    assert {len(drop(column, WORLD, rng)) for _ in range(9)} == {5}
    assert {len(stop_early(column, WORLD, rng)) for _ in range(60)} == {3, 4, 5}
    assert drop(column[:1], WORLD, rng) == stop_early(column[:1], WORLD, rng) == column[:1]


def test_misreading_changes_one_parameter() -> None:
    rng = np.random.default_rng(0)
    brief = KINDS["bridge"](4, 3, 3, 50)
    for _ in range(50):
        other = misread(brief, rng)
        changed = [b - a for a, b in zip(brief.values, other.values, strict=True) if a != b]
        assert len(changed) == 1
        assert abs(changed[0]) in (1, 2)
        assert other.spec["load"] == 50
    with pytest.raises(ValueError, match="none of its parameters"):
        misread(Caption("a", "1x1 (0,0,0)", "o", "s", 0), rng)


def test_captions_are_fulfilled_by_their_own_structure() -> None:
    brief = Caption("a gate", "1x1 (5,0,0)\n1x1 (8,0,0)\n4x1 (5,0,1)\n", "o", "s", 0)
    structure = build(brief, WORLD, np.random.default_rng(0), imperfection=0.0)
    assert brief.fulfilment(structure) == 1.0
    assert build(brief, WORLD, np.random.default_rng(0), imperfection=1.0).bricks


def test_every_kind_has_a_design() -> None:
    assert set(DESIGNS) == set(KINDS)
    with pytest.raises(ValueError, match=r"cannot be split into \[\]"):
        design(KINDS["wall"](4, 3, 2), WORLD.library, np.random.default_rng(0))


def test_designs_have_no_collisions() -> None:
    for kind in GRID_KINDS:
        for number, brief in enumerate(some_briefs(kind, 13)):
            site = Site(World((40, 20, 20)))
            for brick in design(brief, WORLD.library, np.random.default_rng(number)):
                assert site.problem(brick) is None, brief
                site.add(brick)


def test_held_out_briefs_are_not_in_the_examples() -> None:
    bricks = Bricks()
    held_out = {bricks.task("held_out", index).id for index in range(bricks.size("held_out") or 0)}
    assert not held_out & {brief_of(task.spec).id for task, _ in itertools.islice(bricks.examples(), 300)}
