"""The checkers of the brick benchmarks reject invalid structures, and their random structures cover enough cases."""

from __future__ import annotations

import math
import random

import pytest

from benchmarks.bricks import brick_reference, bricks_fuzz, bricks_golden
from benchmarks.bricks.random_structures import loads, mutated_text, random_structure, texts
from steelyard.domains.bricks import Brick, Physics, Structure, World, floating, parse


@pytest.mark.parametrize(
    "bricks",
    [
        (Brick(2, 2, 0, 0, 0), Brick(1, 1, 1, 1, 0)),
        (Brick(2, 2, 19, 0, 0),),
        (Brick(3, 3, 0, 0, 0),),
        (Brick(2, 2, 0, 0, 0), Brick(2, 2, 2, 0, 1)),
        (Brick(2, 2, 0, 0, 1),),
    ],
)
def test_invalid_structures_are_detected(bricks: tuple[Brick, ...]) -> None:
    assert bricks_fuzz.is_valid(Structure((Brick(2, 2, 0, 0, 0), Brick(2, 2, 1, 0, 1))))
    assert not bricks_fuzz.is_valid(Structure(bricks))


def test_a_crash_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    crashes: list[str] = []
    assert bricks_fuzz.parse_outcome("2x4 (0,0,9)", crashes) == "floating"
    assert bricks_fuzz.parse_outcome("2x4 (0,0,0)", crashes) == parse("2x4 (0,0,0)", World())
    monkeypatch.setattr(bricks_fuzz, "parse", lambda *_: 1 / 0)
    assert bricks_fuzz.parse_outcome("2x4 (0,0,0)", crashes) == "crash"
    assert crashes == ["ZeroDivisionError on '2x4 (0,0,0)'"]


def test_random_structures_are_connected_unless_floating_bricks_are_requested() -> None:
    for seed in range(10):
        assert not floating(random_structure(12, random.Random(seed)))
    assert sum(bool(floating(random_structure(12, random.Random(seed), float_=0.3))) for seed in range(10)) > 5


def test_mutated_texts_are_the_same_for_the_same_seed() -> None:
    found = [[mutated_text(rng, texts(rng, 5)) for _ in range(50)] for rng in (random.Random(1), random.Random(1))]
    assert found[0] == found[1]
    assert len(set(found[0])) > 40


def test_the_independent_formulation_by_hand() -> None:
    pytest.importorskip("scipy")
    lever = Structure((Brick(1, 1, 0, 0, 0), Brick(2, 1, 0, 0, 1)))
    assert brick_reference.largest_pull(lever, (), Physics()) == pytest.approx(0.81e-3 * 9.8 / 4)
    afloat = Structure((Brick(1, 1, 0, 0, 1),))
    assert math.isinf(brick_reference.largest_pull(afloat, (), Physics()))


def test_a_difference_is_counted() -> None:
    pytest.importorskip("highspy")
    structure = random_structure(6, random.Random(1))
    found = [(structure, tuple(loads(structure, random.Random(1))))]
    row = bricks_golden.compare("x", iter(found), lambda _: [math.inf, 0.0])
    assert (row["verdicts changed"], row["largest difference"]) == (1, math.inf)
