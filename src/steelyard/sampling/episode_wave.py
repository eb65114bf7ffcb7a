"""Decodes episodes together: rows at different turns share a batch, and rows that wait for a reply leave it.

A waiting row keeps its cache, so its next turn processes only the tokens that are not cached yet. A row whose episode
has ended is used for one that has not started. The number of open episodes therefore never exceeds the number of rows,
which bounds the memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor

from steelyard.policies.causal import CausalPolicy
from steelyard.sampling.base import Decoding, SampleRequest, TurnQueue
from steelyard.sampling.cache import PreallocatedLayer
from steelyard.sampling.partial_sample import PartialSample
from steelyard.sampling.wave import SCRATCH_COLUMNS, Start, Wave
from steelyard.types import GroupKey, SampleKey

GROWTH = 1.5
"""Factor by which the cache grows when an episode needs more room."""


class EpisodeWave(Wave):
    """Rows of episodes.

    The first ``batch`` rows take part in forward passes. After them come the rows that wait for a reply and those whose
    episode has ended.
    """

    def __init__(
        self,
        policy: CausalPolicy,
        seed: int,
        starts: Sequence[Start],
        decoding: Decoding,
        turns: TurnQueue,
        max_rows: int,
    ) -> None:
        super().__init__(policy, seed, starts[:max_rows], decoding)
        self.turns, self.batch = turns, len(self.rows)
        self.queue = deque(starts[max_rows:])
        """Episodes that have not started."""

    def run(self) -> Iterator[PartialSample | None]:
        """Yield turns as they end, and None while every open episode waits for a reply."""
        hidden_BD = self._prefill()
        while True:
            self._draw(hidden_BD, self.rows[: self.batch])
            yield from self._newly_finished()
            self._park()
            resumed = self._resume()
            if self.batch:
                hidden_BD = self._feed_batch(resumed)
            elif all(row.delivered for row in self.rows):
                if all(self._is_over(row) for row in self.rows):
                    return
                yield None

    def _feed_batch(self, resumed: int) -> Tensor:
        """Process the pending tokens of the batch; the last ``resumed`` rows hold whole replies and run separately."""
        first = self.batch - resumed
        parts = [slice(0, first), slice(first, self.batch)]
        return torch.cat([self._feed(part) for part in parts if part.start < part.stop])

    def _is_over(self, row: PartialSample) -> bool:
        return row.finished is not None and self.turns.is_over(row.key)

    def _park(self) -> None:
        """Move finished rows out of the batch, to the rows after it."""
        for place in reversed(range(self.batch)):
            if self.rows[place].finished:
                self.batch -= 1
                self._swap(place, self.batch)

    def _resume(self) -> int:
        """Start queued turns and new episodes in the last rows of the batch, and return how many were started."""
        before = self.batch
        for request in self.turns.take():
            for key in request.keys:
                place = next((place for place, row in enumerate(self.rows) if row.key == key), None)
                if place is None:
                    self.queue.append((request, key))
                else:
                    self._start(place, request, key)
        self._open_episodes()
        return self.batch - before

    def _open_episodes(self) -> None:
        """Start episodes in the rows of ended ones. The first of a group runs its prompt; the others copy its cache."""
        groups: set[GroupKey] = set()
        while self.queue:
            request, key = self.queue[0]
            place = next((place for place, row in enumerate(self.rows) if self._is_over(row)), None)
            if place is None or (self._relative(key) is None and key[:3] in groups):
                return
            self.queue.popleft()
            self._start(place, request, key)
            groups.add(key[:3])

    def _relative(self, key: SampleKey) -> int | None:
        """Return a row of the same group with a cached prompt."""
        for place, row in enumerate(self.rows):
            if row.key[:3] == key[:3] and self.end_R[place] > self.padding_R[place]:
                return place
        return None

    def _start(self, place: int, request: SampleRequest, key: SampleKey) -> None:
        """Start a turn in place of a parked row; cached tokens are not processed again."""
        self._swap(place, self.batch)
        place, ids = self.batch, self._tokens(request)
        source = place if self.rows[place].key == key else self._relative(key)
        common = 0 if source is None else min(_common_prefix(self._held(source), ids), len(ids) - 1)
        if source is None:
            self.padding_R[place] = 0
        elif source != place:
            self.padding_R[place] = self.padding_R[source]
            self._copy(source, place, int(self.padding_R[source]) + common)
        row = self._row(request, key, ids)
        row.pending[:0] = ids[common:].tolist()
        self.rows[place], self.stream_R[place] = row, self._stream(key)
        self.end_R[place] = self.padding_R[place] + common
        self._make_room(int(self.padding_R[place]) + len(ids) + row.decoding.max_new_tokens)
        if not row.finished:  # the constraint may have forced the whole turn
            self.batch += 1

    def _held(self, place: int) -> np.ndarray:
        """Return the tokens whose keys and values are in the cache of a row."""
        row, cached = self.rows[place], int(self.end_R[place] - self.padding_R[place])
        return np.concatenate([row.prompt_ids, np.asarray(row.tokens, np.int32)])[:cached]

    # --- the cache -----------------------------------------------------------------------------------------------

    @property
    def _layers(self) -> list[PreallocatedLayer]:
        return cast("list[PreallocatedLayer]", self.cache.layers)

    def _make_room(self, columns: int) -> None:
        if columns > self.capacity:
            self.capacity = max(columns, int(GROWTH * self.capacity))
            for layer in self._layers:
                layer.grow(self.capacity + SCRATCH_COLUMNS)

    def _copy(self, source: int, target: int, columns: int) -> None:
        for layer in self._layers:
            layer.copy_row(source, target, columns)

    def _swap(self, a: int, b: int) -> None:
        if a == b:
            return
        for layer in self._layers:
            layer.swap(a, b)
        for array in (self.end_R, self.padding_R, self.stream_R):
            array[[a, b]] = array[[b, a]]
        self.rows[a], self.rows[b] = self.rows[b], self.rows[a]


def _common_prefix(a: np.ndarray, b: np.ndarray) -> int:
    """Return the number of leading tokens that two rows share."""
    length = min(len(a), len(b))
    different = np.flatnonzero(a[:length] != b[:length])
    return int(different[0]) if len(different) else length
