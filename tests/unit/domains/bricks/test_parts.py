"""The part library: orientations, masses and validation."""

from __future__ import annotations

import pytest

from steelyard.domains.bricks import STANDARD, Library, Part


def test_the_standard_library_has_eight_parts_and_fourteen_orientations() -> None:
    assert len(STANDARD.parts) == 8
    assert str(STANDARD) == "2x4 4x2 2x6 6x2 1x2 2x1 1x4 4x1 1x6 6x1 1x8 8x1 1x1 2x2"
    assert STANDARD.summary() == "1x1/2/4/6/8, 2x2/4/6"


def test_masses_and_ldraw_numbers() -> None:
    grams = {part.name: round(part.mass * 1e3, 2) for part in STANDARD.parts}
    assert grams == {
        "1x1": 0.43, "1x2": 0.81, "2x2": 1.15, "1x4": 1.57, "2x4": 2.16, "1x6": 2.28, "1x8": 3.03, "2x6": 3.23,
    }  # fmt: skip
    assert STANDARD.by_dimensions[6, 2].ldraw == STANDARD.by_dimensions[2, 6].ldraw == "2456"


def test_a_part_is_found_in_both_orientations() -> None:
    library = Library((Part(1, 3, 1e-3),))
    assert library.dimensions == ((1, 3), (3, 1))
    assert (3, 1) in library
    assert (3, 3) not in library


@pytest.mark.parametrize(
    ("h", "w", "mass", "message"),
    [
        (2, 1, 1e-3, "the shorter side first"),
        (0, 1, 1e-3, "at least 1"),
        (1, 1, 0.0, "must be positive"),
        (1, 1, float("nan"), "must be positive"),
    ],
)
def test_invalid_parts_are_rejected(h: int, w: int, mass: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Part(h, w, mass)


def test_a_library_needs_distinct_parts() -> None:
    with pytest.raises(ValueError, match="no parts"):
        Library(())
    with pytest.raises(ValueError, match="each footprint only once"):
        Library((Part(1, 2, 1e-3), Part(1, 2, 2e-3)))
