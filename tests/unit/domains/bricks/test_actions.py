"""Action spaces with closed vocabularies: words, texts and masks checked by hand."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from steelyard.constraints.automaton import Automaton, WordConstraint
from steelyard.constraints.base import members
from steelyard.domains.bricks import STANDARD, Brick, Flaw, Library, Part, Reason, Structure, World, parse, write
from steelyard.domains.bricks.actions import Absolute, ActionSpace, Lines, Relative, TwoStep, in_building_order
from steelyard.domains.bricks.actions.words import split_bricks
from steelyard.errors import ConstraintError
from tests.automata import TASK

ONE = Library((Part(1, 1, 1e-3),))
SHORT = Library((Part(1, 1, 1e-3), Part(1, 2, 1e-3)))
NARROW = World((2, 1, 2), SHORT)
"""Two columns of two cells: 1x1 and 2x1 bricks fit, 1x2 bricks do not."""

BRICKS = """\
2x4 (8,8,0)
4x2 (9,9,1)
1x1 (2,2,0)
2x2 (11,10,2)
1x2 (12,12,0)
1x1 (12,11,1)
"""
"""The second brick is on the first, the fourth on the second; the last hangs below the fourth."""
WRITTEN: list[tuple[ActionSpace, str]] = [
    (
        Absolute(World(), 6),
        "x8 y8 z0 2x4 x9 y9 z1 4x2 x2 y2 z0 1x1 x11 y10 z2 2x2 x12 y12 z0 1x2 x12 y11 z1 1x1",
    ),
    (
        Relative(World(), 6),
        "z0 8,8 2x4 z1 +1+1 4x2 z0 -6-6 1x1 z2 +3+2 2x2 z0 +4+4 1x2 z1 +4+3 1x1",
    ),
    (
        TwoStep(World(), 6),
        (
            "ground x8 y8 2x4 back1 x+1 y+1 z+1 4x2 back2 x-6 y-6 z+0 1x1 back2 x+2 y+1 z+1 2x2 ground x12 y12 1x2 "
            "back2 x+1 y+1 z-1 1x1"
        ),
    ),
    (
        TwoStep(World(), 6, joint=True),
        "ground 8,8 2x4 back1 +1+1+1 4x2 back2 -6-6+0 1x1 back2 +2+1+1 2x2 ground 12,12 1x2 back2 +1+1-1 1x1",
    ),
    (Lines(World(), 6), BRICKS),
]


def after(automaton: Automaton[Any], text: str) -> list[str]:
    """Return the words allowed after the given text."""
    state = automaton.start(TASK)
    for word in text.split():
        state = automaton.moves(state)[word]
    return list(automaton.moves(state))


@pytest.mark.parametrize(("space", "text"), WRITTEN)
def test_structures_are_written_and_read(space: ActionSpace, text: str) -> None:
    structure = parse(BRICKS, World())
    assert space.write(structure) == text
    reading = space.read(text)
    assert (reading.structure, reading.flaws, reading.lines) == (structure, (), (1, 2, 3, 4, 5, 6))


def test_the_words_of_absolute_coordinates() -> None:
    space = Absolute(NARROW, 3)
    assert space.vocabulary() == ("x0", "x1", "y0", "z0", "z1", "1x1", "1x2", "2x1")
    assert space.tokens_per_brick == 4
    assert len(Absolute(World(), 9).vocabulary()) == 60 + 14


def test_the_words_of_two_steps() -> None:
    world = World((2, 1, 1), ONE)
    by_axis = TwoStep(world, 3, reach=(1, 0, 1))
    assert by_axis.vocabulary() == (
        *("ground", "back1", "back2", "x0", "x1", "y0"),
        *("x-1", "x+0", "x+1", "y+0", "z-1", "z+0", "z+1", "1x1"),
    )
    joint = TwoStep(world, 2, reach=(1, 0, 0), joint=True)
    assert joint.vocabulary() == ("ground", "back1", "0,0", "1,0", "-1+0+0", "+0+0+0", "+1+0+0", "1x1")
    assert (by_axis.tokens_per_brick, joint.tokens_per_brick) == (5, 3)
    assert len(TwoStep(World(), 40).vocabulary()) == 40 + 40 + 15 + 15 + 3 + 14
    assert len(TwoStep(World(), 40, joint=True).vocabulary()) == 40 + 400 + 15 * 15 * 3 + 14


def test_words_are_unique() -> None:
    for space, _ in WRITTEN[:4]:
        words = space.vocabulary()
        assert words is not None
        assert len(set(words)) == len(words)
        assert tuple(space.automaton().alphabet()) == words


def test_absolute_masks_by_hand() -> None:
    held, free = Absolute(NARROW, 3).automaton(), Absolute(NARROW, 3, may_float=True).automaton()
    assert after(held, "") == ["x0", "x1"]
    assert after(held, "x1 y0") == ["z0"]
    assert after(free, "x1 y0") == ["z0", "z1"]
    assert after(held, "x0 y0 z0") == ["1x1", "2x1"]
    assert after(held, "x1 y0 z0") == ["1x1"], "2x1 would extend beyond the world"
    one = "x1 y0 z0 1x1 "
    assert after(held, one + "x1 y0") == ["z1"], "the cell below is occupied"
    assert after(held, one + "x0 y0") == ["z0", "z1"]
    assert after(held, one + "x0 y0 z0") == ["1x1"], "2x1 would collide"
    assert after(held, one + "x0 y0 z1") == ["2x1"], "1x1 would float"
    assert after(free, one + "x0 y0 z1") == ["1x1", "2x1"]
    assert after(held, "x0 y0 z0 2x1 x0 y0 z1 2x1") == [], "full"


def test_the_words_of_relative_coordinates() -> None:
    space = Relative(NARROW, 3)
    assert space.vocabulary() == ("z0", "z1", "0,0", "1,0", "-1+0", "+0+0", "+1+0", "1x1", "1x2", "2x1")
    assert space.tokens_per_brick == 3
    assert len(Relative(World(), 9).vocabulary()) == 20 + 400 + 39 * 39 + 14


def test_relative_masks_by_hand() -> None:
    held, free = Relative(NARROW, 3).automaton(), Relative(NARROW, 3, may_float=True).automaton()
    assert after(held, "") == ["z0"]
    assert after(free, "") == ["z0", "z1"]
    assert after(held, "z0") == ["0,0", "1,0"]
    assert after(held, "z0 1,0") == ["1x1"], "2x1 would extend beyond the world"
    one = "z0 1,0 1x1 "
    assert after(held, one) == ["z0", "z1"]
    assert after(held, one + "z0") == ["-1+0"], "the other cell is occupied"
    assert after(held, one + "z1") == ["-1+0", "+0+0"]
    assert after(held, one + "z1 -1+0") == ["2x1"], "1x1 would float"
    assert after(held, "z0 0,0 2x1 z1 +0+0 2x1") == [], "full"


def test_relative_words_do_not_depend_on_the_first_position() -> None:
    space, later = Relative(World(), 6), " z1 +1+0 4x2 z2 -1+1 1x1"
    one, other = (space.read(f"z0 {place} 2x4{later}").structure for place in ("3,4", "10,9"))
    moved = [brick._replace(x=brick.x + 7, y=brick.y + 5) for brick in one.bricks]
    assert len(one) == 3
    assert moved == list(other.bricks)
    assert [f.reason for f in space.read("z0 +1+0 2x4").flaws] == [Reason.ILL_FORMATTED], "there is no first brick"


def test_two_step_masks_by_hand() -> None:
    automaton = TwoStep(NARROW, 3, reach=(1, 0, 1)).automaton()
    assert after(automaton, "") == ["ground"]
    assert after(automaton, "ground") == ["x0", "x1"]
    one = "ground x1 y0 1x1 "
    assert after(automaton, one) == ["ground", "back1"]
    assert after(automaton, one + "ground") == ["x0"]
    assert after(automaton, one + "back1") == ["x-1", "x+0"]
    assert after(automaton, one + "back1 x-1 y+0") == ["z+0", "z+1"]
    assert after(automaton, one + "back1 x-1 y+0 z+1") == ["2x1"]
    assert after(automaton, one + "back1 x+0 y+0") == ["z+1"]
    two = one + "back1 x-1 y+0 z+1 2x1 "
    assert after(automaton, two) == ["ground", "back1", "back2"]
    assert after(automaton, two + "back1") == ["x+0"], "below itself, where the first brick is not"
    assert after(automaton, two + "back1 x+0 y+0") == ["z-1"]
    assert after(automaton, two + "back2") == ["x-1"]
    assert after(automaton, two + "ground x0 y0 1x1") == [], "the maximum is three"


def test_joint_masks_by_hand() -> None:
    automaton = TwoStep(NARROW, 3, reach=(1, 0, 1), joint=True).automaton()
    assert after(automaton, "ground") == ["0,0", "1,0"]
    assert after(automaton, "ground 1,0 1x1 back1") == ["-1+0+0", "-1+0+1", "+0+0+1"]
    assert after(automaton, "ground 1,0 1x1 back1 -1+0+1") == ["2x1"]


def test_a_pivot_is_allowed_only_if_a_brick_fits_within_reach() -> None:
    row = World((6, 1, 1), ONE)
    automaton = TwoStep(row, 6, reach=(1, 0, 0)).automaton()
    assert after(automaton, "ground x0 y0 1x1 ground x1 y0 1x1") == ["ground", "back1"], (
        "the first brick has no free side"
    )
    assert after(TwoStep(row, 6, reach=(0, 0, 0)).automaton(), "ground x0 y0 1x1") == ["ground"]


def test_the_budget_is_respected() -> None:
    space = TwoStep(World((4, 4, 4)), 3)
    words = ("<end>", *space.vocabulary())
    constraint = WordConstraint(space.automaton(), words, 0)
    walk = constraint.begin(TASK)
    assert walk.shortest_end() == 5
    with pytest.raises(ConstraintError, match="takes 5 tokens including its end"):
        constraint.check_budget(TASK, 4)
    for word in ("ground", "x0", "y0", "2x4"):
        walk.advance(words.index(word))

    def allowed(left: int) -> list[str]:
        return [words[token] for token in members(walk.allowed(left))]

    assert [allowed(left) for left in (1, 4, 5, 6, 60)] == [
        ["<end>"],
        ["<end>"],
        ["<end>", "ground"],
        ["<end>", "ground", "back1"],
        ["<end>", "ground", "back1"],
    ]
    walk.advance(words.index("back1"))
    assert walk.shortest_end() == 5
    walk.advance(words.index("x+0"))
    assert walk.shortest_end() == 4


def test_texts_are_split_after_each_part() -> None:
    text = " x1 y2\t2x4  1x1 x3"
    assert list(split_bricks(text)) == [("x1 y2 2x4", 10), ("1x1", 15), ("x3", 18)]
    assert Absolute(World(), 1).ends(text) == (10, 15, 18)
    assert Lines(World(), 1).ends("2x4 (0,0,0)\n\n1x1") == (11, 12, 16)


def test_reading_skips_bricks_that_cannot_be_placed() -> None:
    text = (
        "ground x0 y0 2x4 back1 x+0 y+0 z+0 1x1 back2 x+0 y+0 z+1 1x1 back1 x-1 y+0 z+1 1x1 hello back1 x+0 y+0 z+1 "
        "2x2 back1 x+0 y+0 z+1 3x3 back1 x+0 y+0 z+1 2x2 back1 x+7 y+0 z+0 1x1 back1 x+5"
    )
    reading = TwoStep(World(), 9).read(text)
    assert write(reading.structure) == "2x4 (0,0,0)\n2x2 (0,0,1)\n1x1 (7,0,1)\n"
    assert reading.lines == (1, 7, 8)
    assert [(flaw.line, flaw.reason) for flaw in reading.flaws] == [
        (2, Reason.COLLISION),
        (3, Reason.ILL_FORMATTED),
        (4, Reason.OUT_OF_BOUNDS),
        (5, Reason.ILL_FORMATTED),
        (6, Reason.NOT_IN_LIBRARY),
        (9, Reason.ILL_FORMATTED),
        (8, Reason.FLOATING),
    ]
    form = "does not have the form ground x8 y8 2x4 or back1 x+0 y-1 z+1 2x4"
    assert reading.flaws[1] == Flaw(Reason.ILL_FORMATTED, 3, f"'back2 x+0 y+0 z+1 1x1' {form}")


@pytest.mark.parametrize("word", ["x-1", "x+1", "x٣", "x" + "9" * 5000, "X1", "x", "x1.0"])
def test_malformed_words_are_ill_formatted(word: str) -> None:
    assert [flaw.reason for flaw in Absolute(World(), 9).read(f"{word} y0 z0 1x1").flaws] == [Reason.ILL_FORMATTED]
    on_ground = TwoStep(World(), 9).read(f"ground {word} y0 1x1")
    assert [flaw.reason for flaw in on_ground.flaws] == [Reason.ILL_FORMATTED]


@pytest.mark.parametrize("pivot", ["back0", "back-1", "back", "back01", "back" + "9" * 5000])
def test_malformed_pivots_are_ill_formatted(pivot: str) -> None:
    reading = TwoStep(World(), 9).read(f"ground x0 y0 2x4 {pivot} x+0 y+0 z+1 1x1")
    assert [flaw.reason for flaw in reading.flaws] == [Reason.ILL_FORMATTED]


def test_the_pivot_is_the_last_touching_brick_or_the_last_within_reach() -> None:
    tower = [Brick(1, 1, 0, 0, 0), Brick(1, 1, 0, 0, 1), Brick(1, 1, 4, 0, 0)]
    space = TwoStep(World(), 9, may_float=True)
    assert space.write(Structure((*tower, Brick(1, 1, 0, 0, 2)))).endswith("back2 x+0 y+0 z+1 1x1")
    assert space.write(Structure((*tower, Brick(1, 1, 5, 0, 1)))).endswith("back1 x+1 y+0 z+1 1x1")
    assert space.write(Structure((*tower, Brick(1, 1, 0, 3, 2)))).endswith("back2 x+0 y+3 z+1 1x1")


def test_a_brick_out_of_reach_cannot_be_written() -> None:
    far = Structure((Brick(1, 1, 0, 0, 0), Brick(1, 1, 9, 0, 1)))
    with pytest.raises(ConstraintError, match=r"1x1 \(9,0,1\) cannot be expressed.*in_building_order.*raise reach"):
        TwoStep(World(), 9).write(far)
    assert TwoStep(World(), 9, reach=(9, 0, 1)).write(far) == "ground x0 y0 1x1 back1 x+9 y+0 z+1 1x1"


def test_the_default_reach_covers_all_touching_bricks() -> None:
    assert TwoStep(World(), 2).reach == (max(max(footprint) for footprint in STANDARD.dimensions) - 1,) * 2 + (1,)


def test_building_order_by_hand() -> None:
    left, right, beam = Brick(1, 1, 0, 0, 0), Brick(1, 1, 3, 0, 0), Brick(4, 1, 0, 0, 1)
    top, middle, bottom = (Brick(1, 1, 9, 0, z) for z in (2, 1, 0))
    afloat = Brick(1, 1, 0, 9, 3)
    structure = Structure((afloat, top, beam, middle, bottom, left, right))
    assert in_building_order(structure).bricks == (bottom, middle, top, left, beam, right, afloat)
    assert in_building_order(Structure(())).bricks == ()


@pytest.mark.parametrize("make", [Absolute, Lines, Relative, TwoStep])
def test_impossible_action_spaces_are_rejected(make: Callable[..., ActionSpace]) -> None:
    with pytest.raises(ConstraintError, match="max_bricks = 0 must be at least 1"):
        make(World(), 0)
    large = World((1, 9, 9), Library((Part(2, 2, 1e-3),)))
    with pytest.raises(ConstraintError, match="no part of 2x2 fits into a world of 1 x 9 x 9 cells"):
        make(large, 1).automaton()


@pytest.mark.parametrize("reach", [(1, 1), (-1, 1, 1)])
def test_an_invalid_reach_is_rejected(reach: Any) -> None:
    with pytest.raises(ConstraintError, match=r"reach = .* three non-negative offsets"):
        TwoStep(World(), 1, reach=reach)


@pytest.mark.parametrize("space", [space for space, _ in WRITTEN])
def test_automata_can_be_pickled(space: ActionSpace) -> None:
    automaton = space.automaton()
    following = automaton.moves(automaton.start(TASK))
    assert pickle.loads(pickle.dumps(automaton)).moves(automaton.start(TASK)) == following
