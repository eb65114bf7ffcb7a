"""Filling the holes of texts with a masked model, all at once or in several steps.

With T steps the holes are divided into T parts, in an order that the weights have no say in; each part is drawn from
one forward pass over the text as far as it is filled. Equal inputs, such as the first of all samples of a group, are
run once. Draws and order take uniforms keyed by (seed, step, slot, attempt, sample, place in the text).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from steelyard import defaults
from steelyard.constraints.base import Bits, members, pack, unpack
from steelyard.constraints.trail import TrailWriter
from steelyard.errors import PolicyError
from steelyard.policies.batch import Batch, pad_rows
from steelyard.policies.masked import MaskedPolicy
from steelyard.sampling.base import Decoding, SampleRequest
from steelyard.sampling.draw import draw
from steelyard.sampling.offsets import TextOffsets
from steelyard.sampling.randomness import stream, uniform
from steelyard.types import Decisions, Sample, SampleKey

Order = Literal["random", "left_to_right"]
ORDER = 1
"""Keys the random numbers of the order, apart from those of the draws."""


@dataclass(slots=True, eq=False)
class _Filling:
    """A text on its way: what it is by now, what comes when, and what was decided."""

    key: SampleKey
    ids: np.ndarray
    allowed: Bits
    choices: int
    """How many tokens are allowed."""
    parts: list[np.ndarray]
    """The places that are filled in each step."""
    word: np.uint64
    """Keys the draws."""
    trail: TrailWriter
    trace: list[np.ndarray] = field(default_factory=list[np.ndarray])
    place: list[int] = field(default_factory=list[int])
    forward: list[int] = field(default_factory=list[int])
    logp: list[float] = field(default_factory=list[float])
    support: list[int] = field(default_factory=list[int])

    def take(self, place: int, token: int, logp: float, kept: np.ndarray | None, forward: int) -> None:
        """Fill a hole; ``kept`` are the tokens that a cut has left. A token that was alone is no decision."""
        bits = self.allowed if kept is None else pack(kept, self.trail.vocabulary)
        if (self.choices if kept is None else len(kept)) > 1:
            self.place.append(place)
            self.forward.append(forward)
            self.logp.append(logp)
            self.support.append(self.trail.add(bits))
        self.ids[place] = token


class FillSampler:
    """Samples from a ``MaskedPolicy`` in this process; new weights are there as soon as the learner has set them."""

    def __init__(
        self,
        policy: MaskedPolicy,
        *,
        seed: int,
        steps: int = defaults.FILL_STEPS,
        order: Order = defaults.FILL_ORDER,
        max_rows: int = defaults.MAX_ROWS,
    ) -> None:
        if order not in ("random", "left_to_right"):
            raise PolicyError(
                f"order={order!r}: if the model chose which holes come first, the choice would be a decision that no "
                f"log-prob accounts for; use random or left_to_right"
            )
        self.policy, self.seed, self.steps, self.order, self.max_rows = policy, seed, steps, order, max_rows
        self.offsets = TextOffsets(policy.tokenizer, policy.decode)
        self.version = 0

    def publish(self, version: int) -> None:
        self.version = version

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        encoded = [(request, self.policy.fillable(request.task, decoding.max_new_tokens)) for request in requests]
        rows = [(request, ids, index) for request, ids in encoded for index in range(request.count)]
        self.policy.sample_mode()
        for start in range(0, len(rows), self.max_rows):
            wave = [self._begin(*row) for row in rows[start : start + self.max_rows]]
            for step in range(self.steps):
                self._step([one for one in wave if step < len(one.parts)], step, decoding)
            for one in wave:
                yield self._finish(one, decoding)

    def _begin(self, request: SampleRequest, ids: np.ndarray, index: int) -> _Filling:
        policy, task = self.policy, request.task
        hole_N = np.flatnonzero(ids == policy.mask_id)
        allowed = policy.allowed(task)
        if not (choices := len(members(allowed))):
            raise PolicyError(f"task {task.id} forbids every token that could be filled in")
        key = SampleKey(request.step, request.slot, request.attempt, index)
        if self.order == "random":
            hole_N = hole_N[np.argsort(uniform(stream(self.seed, *key, ORDER), hole_N), kind="stable")]
        parts = [part for part in np.array_split(hole_N, self.steps) if len(part)]
        word = np.uint64(stream(self.seed, *key))
        return _Filling(key, ids.copy(), allowed, choices, parts, word, TrailWriter(policy.vocabulary))

    @torch.no_grad()
    def _step(self, fillings: Sequence[_Filling], step: int, decoding: Decoding) -> None:
        """One forward pass over what the texts are by now, and a draw for each place of this step's part."""
        if not fillings:
            return
        policy, device = self.policy, self.policy.device
        where = [(one, int(place)) for one in fillings for place in one.parts[step]]
        for one in fillings:
            one.trace.append(one.ids.copy())
        hidden_ND = policy.hidden(_places(where, policy.pad_id).to(device))
        place_N = np.asarray([place for _, place in where])
        uniform_N = torch.from_numpy(uniform(np.asarray([one.word for one, _ in where], np.uint64), place_N)).to(device)
        for start in range(0, len(where), policy.chunk):
            rows = slice(start, start + policy.chunk)
            blocked_CV = self._blocked([one.allowed for one, _ in where[rows]])
            drawn = draw(policy.head(hidden_ND[rows]), decoding.rule, uniform_N[rows], blocked_CV)
            found = zip(where[rows], drawn.token_B.tolist(), drawn.logp_B.tolist(), drawn.kept(), strict=True)
            for (one, place), token, logp, kept in found:
                one.take(place, token, logp, kept, step)

    def _blocked(self, allowed: Sequence[Bits]) -> Tensor:
        distinct = {id(bits): bits for bits in allowed}
        number = {key: index for index, key in enumerate(distinct)}
        blocked_SV = torch.from_numpy(~unpack(np.stack(list(distinct.values())), self.policy.vocabulary))
        return blocked_SV[[number[id(bits)] for bits in allowed]].to(self.policy.device)

    def _finish(self, one: _Filling, decoding: Decoding) -> Sample:
        trace = one.trace or [one.ids]
        start = len(trace) * len(one.ids)
        text, start_T = self.offsets.read(one.ids.tolist())
        decisions = Decisions(
            position_N=np.asarray(one.place, np.int32) + np.int32(start),
            forward_N=np.asarray(one.forward, np.int32),
            logp_N=np.asarray(one.logp, np.float32),
            rule=decoding.rule,
            support_N=np.asarray(one.support, np.int32),
            supports=one.trail.table(),
            start_N=start_T[one.place],
        )
        token_ids = np.concatenate([*trace, one.ids]).astype(np.int32)
        return Sample(one.key, token_ids, start, text, "stop", decisions, self.version)


def _places(where: Sequence[tuple[_Filling, int]], pad_id: int) -> Batch:
    """The texts as rows, equal ones once, and the places that are to be drawn."""
    numbers: dict[bytes, int] = {}
    rows: list[np.ndarray] = []
    row_of: dict[int, int] = {}
    for one, _ in where:
        if id(one) not in row_of:
            row_of[id(one)] = numbers.setdefault(one.ids.tobytes(), len(rows))
            rows += [one.ids] * (row_of[id(one)] == len(rows))
    row_N = torch.tensor([row_of[id(one)] for one, _ in where])
    column_N = torch.tensor([place for _, place in where])
    length_B = torch.tensor([len(row) for row in rows])
    return Batch(pad_rows(rows, pad_id), length_B, row_N, column_N, column_N, row_N, torch.ones(len(where)))
