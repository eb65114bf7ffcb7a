"""Tiling rectangles with parts."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.domains.bricks import STANDARD
from steelyard.domains.bricks.tiling import Tile, estimated_parts, lengths, rows, split_length, strips, tile


def test_lengths_are_sorted_longest_first() -> None:
    assert lengths(STANDARD, 1) == [8, 6, 4, 2, 1]
    assert lengths(STANDARD, 2) == [6, 4, 2, 1]
    assert lengths(STANDARD, 3) == []


def test_a_length_is_split_into_the_longest_parts_that_fit() -> None:
    assert split_length(11, [8, 6, 4, 2, 1]) == [8, 2, 1]
    assert split_length(0, [8]) == []
    with pytest.raises(ValueError, match=r"a length of 5 cannot be split into \[4, 2\]: 1 remain"):
        split_length(5, [4, 2])


def test_random_splits_add_up_and_differ() -> None:
    rng = np.random.default_rng(0)
    splits = [split_length(9, [8, 6, 4, 2, 1], rng) for _ in range(50)]
    assert {sum(parts) for parts in splits} == {9}
    assert len({tuple(parts) for parts in splits}) > 5


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


def test_rows_span_the_full_length() -> None:
    assert rows(6, 3) == [Tile(6, 2, 0, 0), Tile(6, 1, 0, 2)]
    assert rows(6, 2, narrow=True) == [Tile(6, 1, 0, 0), Tile(6, 1, 0, 1)]
    assert rows(8, 2) == [Tile(8, 1, 0, 0), Tile(8, 1, 0, 1)], "there is no 2x8"
    with pytest.raises(ValueError, match="no part of length 5"):
        rows(5, 2)


def test_strips_and_counts() -> None:
    assert strips(5) == [(2, 0), (2, 2), (1, 4)]
    assert (estimated_parts(2, 4), estimated_parts(4, 3), estimated_parts(3, 3)) == (1, 2, 4)
