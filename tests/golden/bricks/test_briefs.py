"""Each kind of brief, checked by hand: structures that satisfy it, and near misses with their partial scores."""

from __future__ import annotations

import pytest

from steelyard.domains.bricks import Load, Structure, World, is_connected, parse
from steelyard.domains.bricks.briefs import Bridge, Brief, Cantilever, Shape, Stairs, Table, Tower, Wall

WORLD = World()


def built(bricks: str) -> Structure:
    """Build a connected structure from bricks written as ``2x4@0,0,0 4x2@1,1,1``."""
    structure = parse("\n".join(brick.replace("@", " (") + ")" for brick in bricks.split()), WORLD)
    assert is_connected(structure)
    return structure


TOWER = Tower(height=3, length=2, width=4)
WALL = Wall(length=6, width=1, height=2)
STAIRS = Stairs(steps=3, tread=2, width=1)
TABLE = Table(length=4, width=2, height=3, free=50, load=100)
BRIDGE = Bridge(gap=4, clearance=2, width=2, load=100)
CANTILEVER = Cantilever(reach=3, height=2, base=4, load=50)
SHAPE = Shape(depth=1, heights=(1, 4))

LEGS = "1x2@0,0,0 1x2@0,0,1 1x2@3,0,0 1x2@3,0,1"
PIERS = "1x2@0,0,0 1x2@0,0,1 1x2@5,0,0 1x2@5,0,1"

FULFIL: list[tuple[Brief, str]] = [
    (TOWER, "2x4@0,0,0 2x4@0,0,1 2x4@0,0,2"),
    (TOWER, "2x4@7,5,0 2x1@7,5,1 2x1@7,8,1 2x4@7,5,2"),
    (WALL, "4x1@0,0,0 2x1@4,0,0 2x1@0,0,1 4x1@2,0,1"),
    (STAIRS, "4x1@0,0,0 4x1@2,0,1 2x1@4,0,2"),
    (STAIRS, "6x1@3,3,0 4x1@5,3,1 2x1@7,3,2"),
    (TABLE, f"{LEGS} 4x2@0,0,2"),
    (TABLE, "2x2@1,0,0 2x2@1,0,1 4x1@0,0,2 4x1@0,1,2"),
    (BRIDGE, f"{PIERS} 6x2@0,0,2"),
    (BRIDGE, f"{PIERS} 6x1@0,0,2 6x1@0,1,2 2x2@2,0,3"),
    (CANTILEVER, "4x2@0,0,0 4x2@0,0,1 6x2@1,0,2"),
    (CANTILEVER, "2x2@2,0,0 2x2@2,0,1 6x2@1,0,2"),
    (SHAPE, "4x1@0,0,0 2x1@2,0,1 2x1@2,0,2 2x1@2,0,3"),
]

MISS: list[tuple[str, Brief, str, float]] = [
    ("a layer short", TOWER, "2x4@0,0,0 2x4@0,0,1", 2 / 3),
    ("a layer too many", TOWER, "2x4@0,0,0 2x4@0,0,1 2x4@0,0,2 2x4@0,0,3", 3 / 4),
    ("a thin waist", TOWER, "2x4@0,0,0 2x2@0,1,1 2x4@0,0,2", (1 + 1 / 2 + 1) / 3),
    ("turned", TOWER, "4x2@0,0,0 4x2@0,0,1 4x2@0,0,2", 1 / 3),
    ("leaning", TOWER, "2x4@0,0,0 2x4@1,0,1 2x4@0,0,2", (1 + 1 / 3 + 1) / 3),
    ("joint above joint", WALL, "4x1@0,0,0 2x1@4,0,0 4x1@0,0,1 2x1@4,0,1", 8 / 12),
    ("a hole", WALL, "4x1@0,0,0 1x1@5,0,0 6x1@0,0,1", 11 / 12),
    ("along y", WALL, "1x6@0,0,0 1x6@0,0,1", 2 / 22),
    ("too long", WALL, "8x1@0,0,0 8x1@0,0,1", 12 / 16),
    ("the last step too long", STAIRS, "4x1@0,0,0 4x1@2,0,1 4x1@4,0,2", 12 / 18),
    ("the last step missing", STAIRS, "4x1@0,0,0 4x1@2,0,1", 10 / 12),
    ("descending instead of rising", STAIRS, "6x1@0,0,0 4x1@0,0,1 2x1@0,0,2", 8 / 16),
    ("twice as wide", STAIRS, "4x2@0,0,0 4x2@2,0,1 2x2@4,0,2", 12 / 24),
    ("too low", TABLE, "1x2@0,0,0 1x2@3,0,0 4x2@0,0,1", 2 / 3),
    ("no room below", TABLE, "4x2@0,0,0 4x2@0,0,1 4x2@0,0,2", 0.0),
    ("little room below", TABLE, "4x2@0,0,0 1x2@0,0,1 4x2@0,0,2", (1 - 10 / 16) / 0.5),
    ("a hole in the top", TABLE, f"{LEGS} 4x1@0,0,2 1x1@0,1,2 2x1@2,1,2", 7 / 8),
    ("a foot beyond the top", TABLE, f"{LEGS} 1x2@4,0,0 4x2@0,0,2", 8 / 10),
    ("something on the top", TABLE, f"{LEGS} 4x2@0,0,2 1x1@0,0,3", (3 / 4) * (1 / 8) * (8 / 24 / 0.5)),
    ("a narrower gap", BRIDGE, "1x2@0,0,0 1x2@0,0,1 1x2@4,0,0 1x2@4,0,1 6x2@0,0,2", 3 / 4),
    ("one pier", BRIDGE, "1x2@0,0,0 1x2@0,0,1 6x2@0,0,2", (4 / 5) / 2),
    ("too low", BRIDGE, "1x2@0,0,0 1x2@5,0,0 6x2@0,0,1", 1 / 2),
    ("half as wide", BRIDGE, "1x1@0,0,0 1x1@0,0,1 1x1@5,0,0 1x1@5,0,1 6x1@0,0,2", 1 / 2),
    ("half of the deck missing", BRIDGE, f"{PIERS} 6x1@0,0,2 1x1@0,1,2 1x1@5,1,2", 1 / 2),
    ("a pillar in the gap", BRIDGE, f"{PIERS} 1x1@2,0,0 1x1@2,0,1 6x2@0,0,2", 2 / 4),
    ("no gap", BRIDGE, "6x2@0,0,0 6x2@0,0,1", 0.0),
    ("a stud short", CANTILEVER, "4x2@0,0,0 4x2@0,0,1 6x2@0,0,2", 2 / 3),
    ("a longer base", CANTILEVER, "6x2@0,0,0 4x2@0,0,1 6x2@3,0,2", 4 / 6),
    ("propped at the tip", CANTILEVER, "4x2@0,0,0 4x2@0,0,1 6x2@1,0,2 1x1@6,0,1 1x1@6,0,0", 0.0),
    ("something hangs down", CANTILEVER, "4x2@0,0,0 4x2@0,0,1 6x2@1,0,2 1x1@6,0,1", 1 / 2),
    ("reaching the other way", CANTILEVER, "4x2@3,0,0 4x2@3,0,1 6x2@0,0,2", 0.0),
    ("too little", SHAPE, "4x1@0,0,0 2x1@2,0,1 1x1@2,0,2", 7 / 10),
    ("mirrored", SHAPE, "4x1@0,0,0 2x1@0,0,1 2x1@0,0,2 2x1@0,0,3", 8 / 12),
]


@pytest.mark.parametrize(("brief", "bricks"), FULFIL)
def test_fulfilled(brief: Brief, bricks: str) -> None:
    structure = built(bricks)
    assert brief.fulfilment(structure) == pytest.approx(1.0)
    assert brief.fulfilled(structure)


@pytest.mark.parametrize(("what", "brief", "bricks", "fulfilment"), MISS)
def test_near_misses(what: str, brief: Brief, bricks: str, fulfilment: float) -> None:
    structure = built(bricks)
    assert brief.fulfilment(structure) == pytest.approx(fulfilment), what
    assert not brief.fulfilled(structure), what


def test_a_shape_needs_a_fulfilment_of_0_8() -> None:
    structure = built("4x1@0,0,0 2x1@2,0,1 2x1@2,0,2")
    assert SHAPE.fulfilment(structure) == pytest.approx(0.8)
    assert SHAPE.fulfilled(structure)


def test_a_missing_part_of_the_arm_does_not_count() -> None:
    floating = parse("4x2 (0,0,0)\n4x2 (0,0,1)\n4x2 (1,0,2)\n1x1 (6,0,2)", WORLD, may_float=True)
    assert CANTILEVER.fulfilment(floating) == pytest.approx(2 / 3)


def test_an_empty_structure_fulfils_no_brief() -> None:
    empty = Structure((), WORLD)
    for brief in (TOWER, WALL, STAIRS, TABLE, BRIDGE, CANTILEVER, SHAPE):
        assert (brief.fulfilment(empty), brief.fulfilled(empty), brief.loads(empty)) == (0.0, False, ())


@pytest.mark.parametrize(
    ("brief", "bricks", "loads"),
    [
        (TABLE, f"{LEGS} 4x2@0,0,2", {Load(x, y, 2, 0.025) for x in (1, 2) for y in (0, 1)}),
        (Table(3, 1, 2, 50, 60), "1x1@5,5,0 4x1@4,5,1", {Load(5, 5, 1, 0.03), Load(6, 5, 1, 0.03)}),
        (BRIDGE, f"{PIERS} 6x2@0,0,2", {Load(x, y, 2, 0.025) for x in (2, 3) for y in (0, 1)}),
        (
            BRIDGE,
            f"{PIERS} 6x2@0,0,2 1x1@2,0,3",
            {Load(2, 0, 3, 0.025), *(Load(*at, 2, 0.025) for at in ((2, 1), (3, 0), (3, 1)))},
        ),
        (CANTILEVER, "4x2@0,0,0 4x2@0,0,1 6x2@1,0,2", {Load(6, 0, 2, 0.025), Load(6, 1, 2, 0.025)}),
        (CANTILEVER, "4x2@0,0,0 4x2@0,0,1 6x1@1,1,2", {Load(6, 1, 2, 0.05)}),
        (TOWER, "2x4@0,0,0", set()),
    ],
)
def test_loads_act_at_the_required_cells(brief: Brief, bricks: str, loads: set[Load]) -> None:
    found = brief.loads(built(bricks))
    assert {load[:3] for load in found} == {load[:3] for load in loads}
    assert sorted(load.kilograms for load in found) == pytest.approx(sorted(load.kilograms for load in loads))


@pytest.mark.parametrize(
    ("brief", "words"),
    [
        (TOWER, "tower height=3 length=2 width=4"),
        (WALL, "wall length=6 width=1 height=2"),
        (STAIRS, "stairs steps=3 tread=2 width=1"),
        (TABLE, "table length=4 width=2 height=3 free=50 load=100"),
        (BRIDGE, "bridge gap=4 clearance=2 width=2 load=100"),
        (CANTILEVER, "cantilever reach=3 height=2 base=4 load=50"),
        (SHAPE, "shape depth=1 block1=1 block2=4"),
    ],
)
def test_words_are_the_kind_and_its_named_parameters(brief: Brief, words: str) -> None:
    assert " ".join(brief.words()) == words
    assert all(word.partition("=")[2] in brief.sentence() for word in words.split()[1:])
    assert brief.id == "-".join(word.partition("=")[2] or word for word in words.split())
