"""Fills the holes in texts with a masked model, in one or more steps.

With T steps, the holes are divided into T parts, in an order that does not depend on the weights. Each part is drawn
from one forward pass over the text as filled so far. Identical inputs, such as the first inputs of a group, are run
once. The draws and the order use uniforms keyed by (seed, step, slot, attempt, sample, position in the text).
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
from steelyard.constraints.support_tables import SupportTableWriter
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
"""Part of the random key for the order, so that it differs from the key for the draws."""


@dataclass(slots=True, eq=False)
class _PartialFill:
    """A partially filled text: its current tokens, the order of its holes, and its decisions so far."""

    key: SampleKey
    ids: np.ndarray
    allowed: Bits
    choices: int
    """Number of allowed tokens."""
    parts: list[np.ndarray]
    """Positions to fill in each step."""
    word: np.uint64
    """Random key for the draws."""
    trail: SupportTableWriter
    trace: list[np.ndarray] = field(default_factory=list[np.ndarray])
    place: list[int] = field(default_factory=list[int])
    forward: list[int] = field(default_factory=list[int])
    logp: list[float] = field(default_factory=list[float])
    support: list[int] = field(default_factory=list[int])

    def take(self, place: int, token: int, logp: float, kept: np.ndarray | None, forward: int) -> None:
        """Fill a hole; ``kept`` contains the tokens left by a cut. A forced token involves no decision."""
        bits = self.allowed if kept is None else pack(kept, self.trail.vocabulary)
        if (self.choices if kept is None else len(kept)) > 1:
            self.place.append(place)
            self.forward.append(forward)
            self.logp.append(logp)
            self.support.append(self.trail.add(bits))
        self.ids[place] = token


class FillSampler:
    """Samples from a ``MaskedPolicy`` in this process; updates by the learner take effect immediately."""

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
                f"sampling.fill_order = {order!r} is not supported: an order chosen by the model would add decisions "
                f"without log-probs; use random or left_to_right"
            )
        self.policy, self.seed, self.steps, self.order, self.max_rows = policy, seed, steps, order, max_rows
        self.offsets = TextOffsets(policy.tokenizer, policy.decode)
        self.version = 0

    def publish(self, version: int) -> None:
        self.version = version

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        encoded = [(request, self.policy.encode_task(request.task, decoding.max_new_tokens)) for request in requests]
        rows = [(request, ids, index) for request, ids in encoded for index in range(request.count)]
        self.policy.sample_mode()
        for start in range(0, len(rows), self.max_rows):
            wave = [self._start(*row) for row in rows[start : start + self.max_rows]]
            for step in range(self.steps):
                self._step([fill for fill in wave if step < len(fill.parts)], step, decoding)
            for fill in wave:
                yield self._finish(fill, decoding)

    def _start(self, request: SampleRequest, ids: np.ndarray, index: int) -> _PartialFill:
        policy, task = self.policy, request.task
        hole_N = np.flatnonzero(ids == policy.mask_id)
        allowed = policy.allowed(task)
        if not (choices := len(members(allowed))):
            raise PolicyError(f"task {task.id} forbids every token; forbid fewer strings")
        key = SampleKey(request.step, request.slot, request.attempt, index)
        if self.order == "random":
            hole_N = hole_N[np.argsort(uniform(stream(self.seed, *key, ORDER), hole_N), kind="stable")]
        parts = [part for part in np.array_split(hole_N, self.steps) if len(part)]
        word = np.uint64(stream(self.seed, *key))
        return _PartialFill(key, ids.copy(), allowed, choices, parts, word, SupportTableWriter(policy.vocabulary))

    @torch.no_grad()
    def _step(self, fillings: Sequence[_PartialFill], step: int, decoding: Decoding) -> None:
        """Run one forward pass over the current texts and draw a token for each hole of this step."""
        if not fillings:
            return
        policy, device = self.policy, self.policy.device
        where = [(fill, int(place)) for fill in fillings for place in fill.parts[step]]
        for fill in fillings:
            fill.trace.append(fill.ids.copy())
        hidden_ND = policy.hidden(_hole_batch(where, policy.pad_id).to(device))
        place_N = np.asarray([place for _, place in where])
        word_N = np.asarray([fill.word for fill, _ in where], np.uint64)
        uniform_N = torch.from_numpy(uniform(word_N, place_N)).to(device)
        for start in range(0, len(where), policy.chunk):
            rows = slice(start, start + policy.chunk)
            blocked_CV = self._blocked([fill.allowed for fill, _ in where[rows]])
            drawn = draw(policy.head(hidden_ND[rows]), decoding.rule, uniform_N[rows], blocked_CV)
            found = zip(where[rows], drawn.token_B.tolist(), drawn.logp_B.tolist(), drawn.kept(), strict=True)
            for (fill, place), token, logp, kept in found:
                fill.take(place, token, logp, kept, step)

    def _blocked(self, allowed: Sequence[Bits]) -> Tensor:
        distinct = {id(bits): bits for bits in allowed}
        number = {key: index for index, key in enumerate(distinct)}
        blocked_SV = torch.from_numpy(~unpack(np.stack(list(distinct.values())), self.policy.vocabulary))
        return blocked_SV[[number[id(bits)] for bits in allowed]].to(self.policy.device)

    def _finish(self, fill: _PartialFill, decoding: Decoding) -> Sample:
        trace = fill.trace or [fill.ids]
        start = len(trace) * len(fill.ids)
        text, start_T = self.offsets.read(fill.ids.tolist())
        decisions = Decisions(
            position_N=np.asarray(fill.place, np.int32) + np.int32(start),
            forward_N=np.asarray(fill.forward, np.int32),
            logp_N=np.asarray(fill.logp, np.float32),
            rule=decoding.rule,
            support_N=np.asarray(fill.support, np.int32),
            supports=fill.trail.table(),
            text_start_N=start_T[fill.place],
        )
        token_ids = np.concatenate([*trace, fill.ids]).astype(np.int32)
        return Sample(fill.key, token_ids, start, text, "stop", decisions, self.version)


def _hole_batch(where: Sequence[tuple[_PartialFill, int]], pad_id: int) -> Batch:
    """Build a batch of the distinct texts and the positions to draw."""
    row_of_text: dict[bytes, int] = {}
    rows: list[np.ndarray] = []
    row_of: dict[int, int] = {}
    for fill, _ in where:
        if id(fill) not in row_of:
            row_of[id(fill)] = row_of_text.setdefault(fill.ids.tobytes(), len(rows))
            rows += [fill.ids] * (row_of[id(fill)] == len(rows))
    row_N = torch.tensor([row_of[id(fill)] for fill, _ in where])
    column_N = torch.tensor([place for _, place in where])
    length_B = torch.tensor([len(row) for row in rows])
    return Batch(pad_rows(rows, pad_id), length_B, row_N, column_N, column_N, row_N, torch.ones(len(where)))
