"""Bricks in a world: bounds, collisions, occupancy, contacts and connectivity."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.domains.bricks import Brick, InvalidStructureError, Reason, Structure, World, floating, is_connected
from steelyard.domains.bricks.contacts import cells, contacts
from steelyard.domains.bricks.structure import place
from steelyard.errors import Invalid

SMALL = World((6, 5, 3))


def flaw_of(*bricks: Brick) -> tuple[Reason, int]:
    with pytest.raises(InvalidStructureError) as caught:
        place(bricks, SMALL)
    return caught.value.flaw.reason, caught.value.flaw.line


def test_a_brick_fits_up_to_the_last_cell() -> None:
    assert len(place([Brick(4, 2, 2, 3, 2)], SMALL)) == 1
    for brick in (Brick(4, 2, 3, 3, 2), Brick(4, 2, 2, 4, 2), Brick(4, 2, 2, 3, 3)):
        assert flaw_of(brick) == (Reason.OUT_OF_BOUNDS, 1)
    assert flaw_of(Brick(1, 1, -1, 0, 0)) == (Reason.OUT_OF_BOUNDS, 1)


def test_unknown_parts_and_collisions_are_rejected() -> None:
    assert flaw_of(Brick(1, 1, 0, 0, 0), Brick(3, 1, 0, 0, 1)) == (Reason.NOT_IN_LIBRARY, 2)
    assert flaw_of(Brick(4, 2, 0, 0, 0), Brick(2, 2, 3, 1, 0)) == (Reason.COLLISION, 2)
    assert len(place([Brick(4, 2, 0, 0, 0), Brick(2, 2, 4, 1, 0), Brick(2, 2, 3, 1, 1)], SMALL)) == 3


def test_an_invalid_structure_rejects_a_sample() -> None:
    with pytest.raises(Invalid, match=r"^collision: brick 2, 1x1 \(0,0,0\) overlaps another brick$"):
        place([Brick(1, 1, 0, 0, 0)] * 2, SMALL)


@pytest.mark.parametrize("size", [(0, 1, 1), (1024, 1024, 1024)])
def test_invalid_worlds_are_rejected(size: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="cells: each side must be at least 1"):
        World(size)


def test_occupancy_and_cells_agree() -> None:
    structure = place([Brick(1, 4, 5, 0, 0), Brick(2, 2, 4, 1, 1)], SMALL)
    grid = structure.occupancy()
    owner, x, y, z = cells(structure)
    assert np.count_nonzero(grid >= 0) == len(owner) == 8
    assert (grid[x, y, z] == owner).all()
    assert grid[5, 3, 0] == 0
    assert grid[4, 2, 1] == 1


def test_mass_does_not_depend_on_orientation() -> None:
    structure = Structure((Brick(4, 2, 0, 0, 0), Brick(2, 4, 0, 0, 1), Brick(1, 1, 0, 0, 2)))
    assert structure.mass_B.tolist() == [2.16e-3, 2.16e-3, 0.43e-3]


def test_contacts_by_hand() -> None:
    """A 2x2 on the ground, a 2x1 half on top of it, and a 1x2 next to the first along x."""
    touching = contacts(Structure((Brick(2, 2, 3, 3, 0), Brick(2, 1, 4, 4, 1), Brick(1, 2, 5, 4, 0))))
    pairs = list(
        zip(
            touching.upper_C.tolist(),
            touching.lower_C.tolist(),
            touching.x_C.tolist(),
            touching.y_C.tolist(),
            strict=True,
        )
    )
    ground = 3
    assert sorted(pairs) == [
        (0, ground, 3, 3), (0, ground, 3, 4), (0, ground, 4, 3), (0, ground, 4, 4),
        (1, 0, 4, 4), (1, 2, 5, 4),
        (2, ground, 5, 4), (2, ground, 5, 5),
    ]  # fmt: skip
    neighbours = zip(touching.before_E.tolist(), touching.after_E.tolist(), touching.axis_E.tolist(), strict=True)
    assert list(neighbours) == [(0, 2, 0)]


def test_neighbours_along_y() -> None:
    touching = contacts(Structure((Brick(1, 1, 0, 1, 0), Brick(1, 1, 0, 0, 0))))
    assert (touching.before_E.tolist(), touching.after_E.tolist(), touching.axis_E.tolist()) == ([1], [0], [1])


def test_bricks_are_connected_through_vertical_contacts() -> None:
    gate = [Brick(1, 1, 0, 0, 0), Brick(1, 1, 0, 0, 1), Brick(4, 1, 0, 0, 2), Brick(1, 1, 3, 0, 1)]
    assert is_connected(place(gate, SMALL)), "the last brick hangs"
    beside = [Brick(1, 1, 0, 0, 0), Brick(1, 1, 0, 0, 1), Brick(1, 1, 1, 0, 1), Brick(1, 1, 1, 0, 2)]
    assert floating(place(beside, SMALL)) == (2, 3), "side contacts do not connect"
    assert is_connected(Structure((), SMALL))
