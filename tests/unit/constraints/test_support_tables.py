"""Support tables: compact, lossless, and equal when recomputed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.constraints.base import count, members, pack, unpack
from steelyard.constraints.support_tables import (
    BITS,
    MEMBERS,
    MISSING,
    SupportTableWriter,
    bits_of,
    everything,
    members_of,
    size_of,
)


@given(st.integers(1, 300).flatmap(lambda v: st.tuples(st.just(v), st.sets(st.integers(0, v - 1)))))
def test_a_set_survives_packing(case: tuple[int, set[int]]) -> None:
    vocabulary, tokens = case
    bits = pack(sorted(tokens), vocabulary)
    assert len(bits) == -(-vocabulary // 8)
    assert set(members(bits).tolist()) == tokens
    assert set(np.flatnonzero(unpack(bits, vocabulary)).tolist()) == tokens
    assert count(bits) == len(tokens)


@given(
    st.integers(1, 300).flatmap(
        lambda v: st.tuples(st.just(v), st.lists(st.sets(st.integers(0, v - 1)), min_size=1, max_size=8))
    )
)
def test_a_table_returns_the_sets_that_were_added(case: tuple[int, list[set[int]]]) -> None:
    vocabulary, sets = case
    trail = SupportTableWriter(vocabulary)
    numbers = [trail.add(pack(sorted(one), vocabulary)) for one in sets]
    table = trail.table()
    assert len(table) == len({frozenset(one) for one in sets})
    for number, one in zip(numbers, sets, strict=True):
        assert set(members_of(table, number).tolist()) == one
        assert np.array_equal(bits_of(table, number), pack(sorted(one), vocabulary))


@pytest.mark.parametrize(
    ("tokens", "form", "size"),
    [
        (range(5), MEMBERS, 10),
        (range(49_152 - 5), MISSING, 10),
        (range(0, 49_152, 2), BITS, 6144),
        (range(3071), MEMBERS, 6142),
        (range(3072), BITS, 6144),
    ],
)
def test_each_set_is_stored_in_the_smallest_form(tokens: range, form: int, size: int) -> None:
    trail = SupportTableWriter(49_152)
    trail.add(pack(list(tokens), 49_152))
    table = trail.table()
    assert table.form.tolist() == [form]
    assert len(table.data) == size
    assert size_of(table) == size + 1 + 16


def test_large_vocabularies_use_wider_integers() -> None:
    trail = SupportTableWriter(70_000)
    trail.add(pack([65_999, 69_999], 70_000))
    table = trail.table()
    assert members_of(table, 0).tolist() == [65_999, 69_999]
    assert len(table.data) == 8


def test_everything_has_no_stray_bits() -> None:
    assert members(everything(11)).tolist() == list(range(11))


def test_an_empty_table() -> None:
    table = SupportTableWriter(5).table()
    assert len(table) == 0
    assert len(table.data) == 0
