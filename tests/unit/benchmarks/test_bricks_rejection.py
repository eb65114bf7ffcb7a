"""Rejection sampling and rollback, with scripted proposers."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.bricks.rejection import (
    BRICKGPT,
    LineRequest,
    RejectionLimits,
    build,
    build_standing,
    building,
    cut_back,
)
from steelyard.domains.bricks import Brick, Structure, World, floating, write

WORLD = World()


class Script:
    """Proposes the lines of a script, repeats the last one, and records its arguments."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.asked: list[tuple[str, float]] = []

    def __call__(self, prefix: str, temperature: float) -> str:
        self.asked.append((prefix, temperature))
        return self.lines.pop(0) if len(self.lines) > 1 else self.lines[0]


def test_a_brick_that_cannot_be_placed_is_sampled_again() -> None:
    script = Script(
        *("hello", "3x3 (0,0,0)", "1x1 (99,0,0)", "2x4 (0,0,0)\n"),
        *("1x1 (0,0,0)", "1x1 (0,0,0)\n", " 1x1 (0,0,0)", "hello", "2x2 (0,0,1)"),
        "",
    )
    built = build(script, WORLD, max_bricks=9)
    first = "2x4 (0,0,0)\n"
    both = first + "2x2 (0,0,1)\n"
    assert write(built.structure) == both
    assert built.rejected == Counter(
        {"ill formatted": 2, "not in library": 1, "out of bounds": 1, "collision": 1, "already rejected": 2}
    )
    assert (built.proposals, built.stands, built.rollbacks, built.gave_up) == (10, None, 0, False)
    assert [prefix for prefix, _ in script.asked] == [""] * 4 + [first] * 5 + [both]
    warmth = [round((temperature - BRICKGPT.temperature) / BRICKGPT.warmer) for _, temperature in script.asked]
    assert warmth == [0, 0, 0, 0, 0, 0, 1, 2, 2, 0], "warmer for each repeat, and reset for the next brick"


def test_building_stops_at_the_maximum_number_of_bricks() -> None:
    built = build(Script("1x1 (0,0,0)", "1x1 (0,0,1)", "1x1 (0,0,2)"), WORLD, max_bricks=2)
    assert (len(built.structure), built.proposals, built.gave_up) == (2, 2, False)


def test_building_stops_after_too_many_rejections() -> None:
    built = build(Script("1x1 (0,0,0)"), WORLD, max_bricks=9, limits=RejectionLimits(rejections=3))
    assert write(built.structure) == "1x1 (0,0,0)\n"
    assert (built.proposals, built.gave_up) == (5, True)
    assert built.rejected == Counter({"collision": 1, "already rejected": 3})


def test_a_collapsing_structure_is_cut_back_and_continued() -> None:
    script = Script(
        *("1x1 (0,0,0)", "1x1 (5,5,3)", "1x1 (0,0,1)", ""),
        *("1x1 (0,0,1)", "1x1 (5,5,2)", ""),
        *("1x1 (0,0,2)", ""),
    )
    built = build_standing(script, WORLD, max_bricks=9, failing=floating)
    assert write(built.structure) == "1x1 (0,0,0)\n1x1 (0,0,1)\n1x1 (0,0,2)\n"
    assert (built.stands, built.rollbacks, built.proposals) == (True, 2, 9)
    assert script.asked[4][0] == "1x1 (0,0,0)\n"
    assert script.asked[7][0] == "1x1 (0,0,0)\n1x1 (0,0,1)\n"


def test_rollbacks_are_limited() -> None:
    script = Script("1x1 (5,5,3)", "", "1x1 (5,5,3)", "", "1x1 (5,5,3)", "")
    built = build_standing(script, WORLD, max_bricks=9, failing=floating, limits=RejectionLimits(rollbacks=2))
    assert (built.stands, built.rollbacks, len(built.structure)) == (False, 2, 1)


def test_a_standing_structure_is_not_rolled_back() -> None:
    built = build_standing(Script("1x1 (0,0,0)", ""), WORLD, max_bricks=9, failing=floating)
    assert (built.stands, built.rollbacks, built.proposals) == (True, 0, 2)


def test_a_structure_is_cut_until_the_rest_stands() -> None:
    """Of five bricks, the last two fail; of three bricks, the last two fail; a single brick stands."""
    verdicts = {5: (4, 3), 3: (1, 2), 1: ()}
    structure = Structure(tuple(Brick(1, 1, 0, 0, z) for z in range(5)))
    asked: list[int] = []

    def failing(structure: Structure) -> tuple[int, ...]:
        asked.append(len(structure))
        return verdicts[len(structure)]

    assert cut_back(structure, failing, verdicts[5]).bricks == structure.bricks[:1]
    assert asked == [3, 1]


def test_stability_is_checked_by_the_solver_by_default() -> None:
    pytest.importorskip("highspy")
    world = World((60, 4, 30))
    stairs = [f"4x2 ({2 * step},0,{step})" for step in range(20)]
    built = build_standing(Script(*stairs, ""), world, max_bricks=30, limits=RejectionLimits(rollbacks=1))
    assert (built.stands, built.rollbacks) == (True, 1)
    assert len(built.structure) < 20, "twenty steps collapse, and the script has ended"


def test_buildings_can_run_in_parallel() -> None:
    """Each building requests its own next line; closing one does not affect the others."""
    first, second, third = (building(WORLD, max_bricks=2) for _ in range(3))
    assert [next(each) for each in (first, second, third)] == 3 * [LineRequest("", BRICKGPT.temperature)]
    assert first.send("1x1 (0,0,0)") == ("1x1 (0,0,0)\n", BRICKGPT.temperature)
    assert second.send("9x9 (0,0,0)").text == ""
    third.close()
    with pytest.raises(StopIteration) as end:
        first.send("2x2 (0,0,1)")
    assert write(end.value.value.structure) == "1x1 (0,0,0)\n2x2 (0,0,1)\n"
    with pytest.raises(StopIteration) as end:
        second.send("")
    assert (end.value.value.proposals, len(end.value.value.structure)) == (2, 0)
