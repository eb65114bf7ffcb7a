"""Compact storage for the supports of a sample.

A set of tokens is stored in the smallest of three forms: packed bits (V/8 bytes), a list of its members, or a list of
the tokens that are not members (2 bytes per token for vocabularies up to 65,536, else 4). Equal sets are stored once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from steelyard.constraints.base import Bits, Constraint, members, pack, unpack
from steelyard.errors import ConstraintError
from steelyard.types import Sample, SupportRecipe, SupportTable

BITS, MEMBERS, MISSING = range(3)


class SupportTableWriter:
    """Collects the supports of one sample."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self._index: dict[bytes, int] = {}

    def add(self, bits: Bits) -> int:
        """Add a set and return its index; equal sets share one index."""
        return self._index.setdefault(bits.tobytes(), len(self._index))

    def table(self) -> SupportTable:
        parts = [_stored(bits, self.vocabulary) for bits in self._index]
        start = np.concatenate([[0], np.cumsum([len(data) for _, data in parts])]).astype(np.int64)
        data = np.concatenate([data for _, data in parts]) if parts else np.zeros(0, np.uint8)
        return SupportTable(self.vocabulary, np.asarray([form for form, _ in parts], np.uint8), start, data)


def join_tables(tables: Sequence[SupportTable]) -> SupportTable:
    """Return one table with the sets of several, in order."""
    shifts = np.cumsum([0, *(len(table.data) for table in tables)])
    start = [table.start[:-1] + shift for table, shift in zip(tables, shifts[:-1], strict=True)]
    return SupportTable(
        tables[0].vocabulary,
        np.concatenate([table.form for table in tables]),
        np.concatenate([*start, shifts[-1:]]).astype(np.int64),
        np.concatenate([table.data for table in tables]),
    )


def bits_of(table: SupportTable, index: int) -> Bits:
    """Return one set of a table as packed bits."""
    data, form = table.data[table.start[index] : table.start[index + 1]], table.form[index]
    if form == BITS:
        return data
    listed = pack(data.view(_integers(table.vocabulary)), table.vocabulary)
    return listed if form == MEMBERS else everything(table.vocabulary) & ~listed


def members_of(table: SupportTable, index: int) -> NDArray[np.int32]:
    """Return the tokens of one set in ascending order."""
    return members(bits_of(table, index))


def everything(vocabulary: int) -> Bits:
    """Return the set of all tokens."""
    return np.packbits(np.ones(vocabulary, np.bool_), bitorder="little")


def size_of(table: SupportTable) -> int:
    """Return the size of a table in bytes."""
    return table.form.nbytes + table.start.nbytes + table.data.nbytes


def recompute_supports(constraint: Constraint, recipe: SupportRecipe, sample: Sample) -> list[Bits]:
    """Recompute the allowed sets at the sample's decisions by following the constraint along its tokens."""
    decided = set((sample.decisions.position_N - sample.prompt_length).tolist())
    walk, tokens, found = constraint.begin(recipe.task), sample.completion_ids.tolist(), list[Bits]()
    place = 0
    while place < len(tokens):
        run = walk.forced(recipe.budget - place)
        if list(run) != tokens[place : place + len(run)]:
            raise ConstraintError(
                f"sample {tuple(sample.key)} does not follow its constraint at token {place}: expected {list(run)}, "
                f"found {tokens[place : place + len(run)]}; use the constraint it was sampled with"
            )
        if not run:
            if place in decided:
                found.append(walk.allowed(recipe.budget - place).copy())
            run = tokens[place : place + 1]
        for token in run:
            walk.advance(token)
        place += len(run)
    if len(found) != len(decided):
        raise ConstraintError(
            f"sample {tuple(sample.key)} has decisions at tokens that its constraint forces; use the "
            "constraint it was sampled with"
        )
    return found


@lru_cache(maxsize=4096)
def _stored(packed: bytes, vocabulary: int) -> tuple[int, NDArray[np.uint8]]:
    """Return the smallest form of a set; cached, because many samples share sets."""
    bits = np.frombuffer(packed, np.uint8)
    present = unpack(bits, vocabulary)
    chosen, integers = int(present.sum()), _integers(vocabulary)
    if min(chosen, vocabulary - chosen) * integers().itemsize >= len(bits):
        return BITS, bits
    few = chosen <= vocabulary - chosen
    listed = np.flatnonzero(present if few else ~present).astype(integers)
    return (MEMBERS if few else MISSING), listed.view(np.uint8)


def _integers(vocabulary: int) -> type[np.uint16 | np.uint32]:
    return np.uint16 if vocabulary <= 1 << 16 else np.uint32
