"""A sample in progress: its tokens, its constraint, and the tokens that the model has not processed yet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard.constraints.base import Bits, Constraint, Walk, pack
from steelyard.constraints.support_tables import SupportTableWriter
from steelyard.sampling.base import Decoding, SampleRequest
from steelyard.sampling.offsets import TextOffsets
from steelyard.types import Decisions, FinishReason, Sample, SampleKey, SupportRecipe


class PartialSample:
    """One turn of a sample from its prompt to its end. Tokens forced by the constraint are added without a draw."""

    def __init__(
        self,
        request: SampleRequest,
        key: SampleKey,
        prompt_ids: np.ndarray,
        decoding: Decoding,
        end_ids: frozenset[int],
        constraint: Constraint | None,
        vocabulary: int,
    ) -> None:
        self.key, self.prompt_ids, self.decoding, self.end_ids = key, prompt_ids, decoding, end_ids
        self.drawn = 0 if request.next_turn is None else request.next_turn.drawn
        """Number of tokens written in earlier turns."""
        self.tokens: list[int] = []
        self.pending: list[int] = []
        """Tokens that the model has not processed yet."""
        self.finished: FinishReason | None = None
        self.delivered = False
        """Whether the sampler has yielded this turn."""
        self._task = request.task
        self._walk: Walk | None = None if constraint is None else constraint.begin(request.task)
        self._stored = decoding.supports == "stored"
        self._restricted = constraint is not None or decoding.rule.cuts
        self._trail = SupportTableWriter(vocabulary)
        self._place: list[int] = []
        self._logp: list[float] = []
        self._support: list[int] = []
        self._allowed: Bits | None = None
        self._add_forced()

    @property
    def left(self) -> int:
        """Number of tokens that still fit."""
        return self.decoding.max_new_tokens - len(self.tokens)

    @property
    def ready(self) -> bool:
        """Whether the next token can be drawn."""
        return self.finished is None and not self.pending

    @property
    def allowed(self) -> Bits | None:
        """Tokens that the constraint allows next, or None if all tokens are allowed."""
        return self._allowed

    def take(self, token: int, logp: float, kept: np.ndarray | None) -> None:
        """Add a sampled token; ``kept`` contains the tokens left by a cut, or None if there was no cut."""
        if kept is None or len(kept) > 1:  # a forced token involves no decision
            self._place.append(len(self.tokens))
            self._logp.append(logp)
            if self._restricted and self._stored:
                bits = self._allowed if kept is None else pack(kept, self._trail.vocabulary)
                self._support.append(-1 if bits is None else self._trail.add(bits))
        self._write(token)
        self._add_forced()

    def set_log_probs(self, logp_T: Sequence[float]) -> None:
        """Set the log-probs of sampled tokens from those of all tokens, for engines that report them at the end."""
        self._logp = [logp_T[place] for place in self._place]

    def finish(self, offsets: TextOffsets, version: int) -> Sample:
        text, start_T = offsets.read(self.tokens)
        omitted = self._restricted and not self._stored
        recipe = SupportRecipe(self._task, self.decoding.max_new_tokens) if omitted and self._walk is not None else None
        listed = self._restricted and self._stored
        decisions = Decisions(
            position_N=np.asarray(self._place, np.int32) + len(self.prompt_ids),
            forward_N=np.asarray(self._place, np.int32),
            logp_N=np.asarray(self._logp, np.float32),
            rule=self.decoding.rule,
            support_N=np.asarray(self._support, np.int32) if listed else None,
            supports=self._trail.table() if listed else None,
            supports_omitted=omitted,
            support_recipe=recipe,
            text_start_N=start_T[self._place],
        )
        ids = np.concatenate([self.prompt_ids, np.asarray(self.tokens, np.int32)])
        return Sample(self.key, ids, len(self.prompt_ids), text, self.finished or "length", decisions, version)

    def _write(self, token: int) -> None:
        self.tokens.append(token)
        self.pending.append(token)
        if self._walk is not None:
            self._walk.advance(token)
        if token in self.end_ids:
            self.finished = "stop"
        elif not self.left:
            self.finished = "length"

    def _add_forced(self) -> None:
        """Add forced tokens and find the tokens allowed after them."""
        if self._walk is None:
            return
        while self.finished is None and (run := self._walk.forced(self.left)):
            for token in run:
                self._write(token)
        if self.finished is None:
            self._allowed = self._walk.allowed(self.left)
            if not self._allowed.any():  # dead end: no token can continue the sample
                self.finished = "length"
