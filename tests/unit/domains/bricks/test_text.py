"""The text format: parsing, skipped lines and reported errors."""

from __future__ import annotations

import pytest

from steelyard.domains.bricks import Brick, Flaw, InvalidStructureError, Reason, World, parse, read, write
from steelyard.domains.bricks.text import in_raster_order, parse_brick

WORLD = World()


def reason_of(text: str, world: World = WORLD) -> Reason:
    with pytest.raises(InvalidStructureError) as caught:
        parse(text, world)
    return caught.value.flaw.reason


def test_a_structure_round_trips_through_text() -> None:
    text = "2x4 (0,1,0)\n1x1 (1,4,1)\n8x1 (1,4,2)\n"
    structure = parse(text, WORLD)
    assert structure.bricks == (Brick(2, 4, 0, 1, 0), Brick(1, 1, 1, 4, 1), Brick(8, 1, 1, 4, 2))
    assert write(structure) == text
    assert write(structure.bricks) == text


@pytest.mark.parametrize("text", ["2x4 (0,0,0)", " 2x4 (0,0,0)\r\n\n", "\n\n02x4 (00,0,0)"])
def test_surrounding_white_space_and_leading_zeros_are_ignored(text: str) -> None:
    assert parse(text, WORLD).bricks == (Brick(2, 4, 0, 0, 0),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n \n",
        "2x4",
        "2x4(0,0,0)",
        "2x4 (0, 0,0)",
        "2x4 (0,0,-1)",
        "2x4 (0,0,0) 1x1 (5,5,0)",
        "2X4 (0,0,0)",
        "٢x4 (0,0,0)",
    ],
)
def test_other_formats_are_ill_formatted(text: str) -> None:
    assert reason_of(text) is Reason.ILL_FORMATTED


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("3x3 (0,0,0)", Reason.NOT_IN_LIBRARY),
        (f"{'9' * 5000}x1 (0,0,0)", Reason.NOT_IN_LIBRARY),
        ("2x4 (19,0,0)", Reason.OUT_OF_BOUNDS),
        ("2x4 (0,0,20)", Reason.OUT_OF_BOUNDS),
        (f"2x4 (0,0,{'9' * 5000})", Reason.OUT_OF_BOUNDS),
        (f"2x4 (0,0,{'1' + '0' * 30})", Reason.OUT_OF_BOUNDS),
        ("2x4 (0,0,0)\n1x1 (1,3,0)", Reason.COLLISION),
        ("2x4 (0,0,0)\n1x1 (2,0,1)", Reason.FLOATING),
        ("2x4 (0,0,1)", Reason.FLOATING),
        ("3x3 (99,0,0)", Reason.NOT_IN_LIBRARY),
        ("1x1 (5,5,5)\n9x9 (0,0,0)", Reason.NOT_IN_LIBRARY),
    ],
)
def test_every_flaw_has_its_reason(text: str, reason: Reason) -> None:
    assert reason_of(text) is reason


def test_bounds_depend_on_the_world() -> None:
    assert len(parse("1x8 (0,20,0)", World((20, 28, 20)))) == 1
    assert reason_of("1x8 (0,20,0)", World((20, 27, 20))) is Reason.OUT_OF_BOUNDS


def test_floating_bricks_can_be_allowed() -> None:
    assert len(parse("2x4 (0,0,1)", WORLD, may_float=True)) == 1


def test_reading_skips_bricks_that_cannot_be_placed() -> None:
    reading = read("2x4 (0,0,0)\nhello\n\n1x1 (0,0,0)\n3x1 (0,0,0)\n1x2 (9,9,9)\n1x1 (19,20,0)\n2x2 (0,0,1)", WORLD)
    assert write(reading.structure) == "2x4 (0,0,0)\n1x2 (9,9,9)\n2x2 (0,0,1)\n"
    assert reading.lines == (1, 6, 8)
    assert [(flaw.line, flaw.reason) for flaw in reading.flaws] == [
        (2, Reason.ILL_FORMATTED),
        (4, Reason.COLLISION),
        (5, Reason.NOT_IN_LIBRARY),
        (7, Reason.OUT_OF_BOUNDS),
        (6, Reason.FLOATING),
    ]


def test_a_flaw_reports_text_and_line() -> None:
    flaws = read("2x4 (0,0,0)\n" + "x" * 99, WORLD).flaws
    assert str(flaws[0]) == f"ill formatted: brick 2, '{'x' * 39}…' does not have the form hxw (x,y,z)"
    assert flaws == (Flaw(Reason.ILL_FORMATTED, 2, flaws[0].detail),)


def test_raster_order_is_from_the_bottom_up() -> None:
    structure = parse("1x1 (0,0,0)\n1x1 (0,0,1)\n1x1 (5,0,0)\n1x1 (2,1,0)\n1x1 (0,1,0)", WORLD)
    places = [brick[2:] for brick in in_raster_order(structure).bricks]
    assert places == [(0, 0, 0), (5, 0, 0), (0, 1, 0), (2, 1, 0), (0, 0, 1)]


def test_one_line_is_parsed() -> None:
    assert parse_brick("2x4 (1,2,3)") == Brick(2, 4, 1, 2, 3)
    assert parse_brick("2x4 (1,2,3) ") is None
    assert str(Brick(2, 4, 1, 2, 3)) == "2x4 (1,2,3)"
