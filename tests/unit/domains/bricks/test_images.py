"""Rotations, reflections and translations, and the verdict that is invariant under them."""

from __future__ import annotations

import pytest

from benchmarks.bricks.brick_cases import golden
from steelyard.domains.bricks import Brick, Load, Structure, World, assess, largest_pull
from steelyard.domains.bricks.images import at_origin, images, mirrored, turned
from steelyard.domains.bricks.stability.symmetry import largest_pull_symmetric, mirrored_in_y, representatives

ONE = Structure((Brick(4, 2, 1, 0, 0), Brick(1, 2, 4, 0, 1)), World((6, 5, 3)))
LOADS = (Load(4, 1, 1, 0.5),)


def test_a_quarter_turn_by_hand() -> None:
    structure, loads = turned(ONE, LOADS)
    assert structure.world.size == (5, 6, 3)
    assert structure.bricks == (Brick(2, 4, 0, 1, 0), Brick(2, 1, 0, 1, 1))
    assert loads == (Load(1, 1, 1, 0.5),)


def test_mirrors_by_hand() -> None:
    structure, loads = mirrored(ONE, LOADS)
    assert structure.bricks == (Brick(4, 2, 1, 0, 0), Brick(1, 2, 1, 0, 1))
    assert loads == (Load(1, 1, 1, 0.5),)
    structure, loads = mirrored_in_y(ONE, LOADS)
    assert structure.bricks == (Brick(4, 2, 1, 3, 0), Brick(1, 2, 4, 3, 1))
    assert loads == (Load(4, 3, 1, 0.5),)


def test_four_turns_and_two_reflections_are_the_identity() -> None:
    assert mirrored(*mirrored(ONE, LOADS)) == (ONE, LOADS)
    assert turned(*turned(*turned(*turned(ONE, LOADS)))) == (ONE, LOADS)
    assert len(set(images(ONE, LOADS))) == 8


def test_at_the_origin() -> None:
    structure, loads = at_origin(ONE, LOADS)
    assert structure.bricks == (Brick(4, 2, 0, 0, 0), Brick(1, 2, 3, 0, 1))
    assert loads == (Load(3, 1, 1, 0.5),)
    assert at_origin(Structure(())) == (Structure(()), ())


def test_at_most_four_of_eight_images_are_solved() -> None:
    assert len(representatives(ONE, LOADS)) == 4
    assert len(representatives(Structure((Brick(2, 2, 0, 0, 0),)), ())) == 1


@pytest.mark.parametrize(
    ("name", "score", "mirror"), [("stairs of 20", 1.0055, 0.8322), ("load on four", 1.1872, 0.9606)]
)
def test_the_published_contact_points_are_not_mirror_symmetric(name: str, score: float, mirror: float) -> None:
    pytest.importorskip("highspy")
    (structure,) = [case.structure for case in golden() if case.name == name]
    image, _ = mirrored(structure)
    assert largest_pull(structure) / 0.98 == pytest.approx(score, abs=5e-5)
    assert largest_pull(image) / 0.98 == pytest.approx(mirror, abs=5e-5)
    for each in (structure, image):
        assert largest_pull_symmetric(each) / 0.98 == pytest.approx(score, abs=5e-5)
        verdict = assess(each, symmetric=True)
        assert not verdict.stands
        assert verdict.failing == (1,), "in the order of the structure's bricks"
