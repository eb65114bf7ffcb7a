"""Exact linear algebra with sparse vectors of fractions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from fractions import Fraction
from typing import TypeVar

Index = TypeVar("Index", bound=Hashable)
Other = TypeVar("Other", bound=Hashable)
Vector = dict[Index, Fraction]


def add(to: Vector[Index], vector: Vector[Index], times: Fraction) -> None:
    """Add ``times`` · ``vector`` to ``to`` in place and drop entries that become 0."""
    for index, value in vector.items():
        total = to.get(index, 0) + times * value
        if total:
            to[index] = total
        else:
            to.pop(index, None)


def null_space(rows: Iterable[Vector[int]], columns: int) -> list[Vector[int]]:
    """Return a basis of the null space of ``rows``. Each vector has a 1 in a column where all others have a 0."""
    pivots = _pivots(rows)
    free = [column for column in range(columns) if column not in pivots]
    return [
        {column: Fraction(1)} | {lead: -row[column] for lead, row in pivots.items() if column in row} for column in free
    ]


def reduced_rows(rows: Iterable[Vector[int]]) -> list[Vector[int]]:
    """Return the reduced row echelon form: each row has a leading 1 in a column where all other rows are 0."""
    pivots = _pivots(rows)
    return [pivots[lead] for lead in sorted(pivots)]


def _pivots(rows: Iterable[Vector[int]]) -> dict[int, Vector[int]]:
    """Return the reduced rows by pivot column."""
    pivots: dict[int, Vector[int]] = {}
    for given in rows:
        row = dict(given)
        for column in sorted(row.keys() & pivots.keys()):
            if column in row:
                add(row, pivots[column], -row[column])
        if not row:
            continue
        lead = min(row)
        scale = row[lead]
        row = {column: value / scale for column, value in row.items()}
        for other in pivots.values():
            if lead in other:
                add(other, row, -other[lead])
        pivots[lead] = row
    return pivots


def solve(equations: Iterable[tuple[Vector[Index], Vector[Other]]]) -> dict[Index, Vector[Other]]:
    """Solve Σ_i a_i x_i = b for the vectors x_i, given all equations (a, b). The solution must be unique."""
    solved: dict[Index, tuple[Vector[Index], Vector[Other]]] = {}
    for left, right in equations:
        row, value = dict(left), dict(right)
        for unknown in list(row.keys() & solved.keys()):
            times = -row[unknown]
            add(row, solved[unknown][0], times)
            add(value, solved[unknown][1], times)
        if not row:
            continue
        lead, scale = next(iter(row.items()))
        row = {unknown: entry / scale for unknown, entry in row.items()}
        value = {index: entry / scale for index, entry in value.items()}
        for others, theirs in solved.values():
            if lead in others:
                times = -others[lead]
                add(others, row, times)
                add(theirs, value, times)
        solved[lead] = row, value
    return {unknown: value for unknown, (_, value) in solved.items()}
