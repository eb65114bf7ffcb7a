"""Areas cut into parts."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.domains.bricks import STANDARD
from steelyard.domains.bricks.tiling import Piece, cut, fewest, lengths, rows, strips, tile


def test_lengths_of_a_width_come_longest_first() -> None:
    assert lengths(STANDARD, 1) == [8, 6, 4, 2, 1]
    assert lengths(STANDARD, 2) == [6, 4, 2, 1]
    assert lengths(STANDARD, 3) == []


def test_a_length_is_cut_into_the_longest_that_fit() -> None:
    assert cut(11, [8, 6, 4, 2, 1]) == [8, 2, 1]
    assert cut(0, [8]) == []
    with pytest.raises(ValueError, match=r"a length of 5 cannot be made of \[4, 2\]: 1 are left"):
        cut(5, [4, 2])


def test_drawn_cuts_add_up_and_differ() -> None:
    rng = np.random.default_rng(0)
    cuts = [cut(9, [8, 6, 4, 2, 1], rng) for _ in range(50)]
    assert {sum(pieces) for pieces in cuts} == {9}
    assert len({tuple(pieces) for pieces in cuts}) > 5


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("drawn", [False, True])
def test_tiles_cover_every_cell_once_with_parts_of_the_library(across: bool, drawn: bool) -> None:
    for length in range(1, 10):
        for width in range(1, 6):
            covered = np.zeros((length, width), np.int64)
            rng = np.random.default_rng(length) if drawn else None
            for h, w, x, y in tile(length, width, across=across, rng=rng):
                assert (h, w) in STANDARD
                covered[x : x + h, y : y + w] += 1
            assert (covered == 1).all()


def test_rows_go_the_whole_length() -> None:
    assert rows(6, 3) == [Piece(6, 2, 0, 0), Piece(6, 1, 0, 2)]
    assert rows(6, 2, narrow=True) == [Piece(6, 1, 0, 0), Piece(6, 1, 0, 1)]
    assert rows(8, 2) == [Piece(8, 1, 0, 0), Piece(8, 1, 0, 1)], "there is no 2x8"
    with pytest.raises(ValueError, match="no part of the library is 5 long"):
        rows(5, 2)


def test_strips_and_counts() -> None:
    assert strips(5) == [(2, 0), (2, 2), (1, 4)]
    assert (fewest(2, 4), fewest(4, 3), fewest(3, 3)) == (1, 2, 4)
