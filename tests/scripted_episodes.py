"""Episodes with scripted replies, played directly on a sampler; the test controls the replies' delay and order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from steelyard.constraints.automaton import Automaton
from steelyard.sampling.base import Decoding, EpisodeSampler, NextTurn, SampleRequest, TurnQueue
from steelyard.types import CutRule, Sample, SampleKey, Task

Turns = dict[SampleKey, list[Sample]]


class Script:
    """Replies with tokens that depend on the sample and the turn; episodes have 1 to ``turns`` turns."""

    def __init__(self, turns: int = 5, tokens: int = 10, longest: int = 6) -> None:
        self.turns, self.tokens, self.longest = turns, tokens, longest

    def reply(self, key: SampleKey, written: int) -> list[int] | None:
        """Return the tokens that follow a turn, or None if the episode is over."""
        rng = np.random.default_rng([*key, written])
        if written > (key.slot + key.sample) % self.turns:
            return None
        return (3 + rng.integers(self.tokens, size=1 + rng.integers(self.longest))).tolist()


class Lengthening(Automaton[tuple[int, int]]):
    """In turn n > 0, allows n words, each one of the first n + 1; in turn 0, only the first word."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words

    def start(self, task: Task) -> tuple[int, int]:
        turn = task.spec.get("turn", 0)
        return turn, max(turn, 1)

    def moves(self, state: tuple[int, int]) -> dict[str, tuple[int, int]]:
        turn, left = state
        return dict.fromkeys(self.words[: turn + 1], (turn, left - 1)) if left else {}

    def may_end(self, state: tuple[int, int]) -> bool:
        return state[1] == 0


def next_turn(
    request: SampleRequest, played: Sequence[Sample], reply: Sequence[int], decoding: Decoding
) -> SampleRequest:
    last = played[-1]
    ids = np.concatenate([last.token_ids, np.asarray(reply, np.int32)])
    drawn = sum(len(turn.completion_ids) for turn in played)
    turn = NextTurn(last.key.sample, ids, drawn, decoding.max_new_tokens)
    spec = {**request.task.spec, "turn": len(played)}
    return replace(request, task=replace(request.task, spec=spec), next_turn=turn, only=())


def play(
    sampler: EpisodeSampler,
    requests: Sequence[SampleRequest],
    decoding: Decoding | None = None,
    *,
    script: Script | None = None,
    delays: np.random.Generator | None = None,
    open_limit: int | None = None,
) -> Turns:
    """Play all episodes. With ``delays``, replies arrive in random order after a random number of rounds."""
    decoding, script = decoding or Decoding(CutRule(), 5), script or Script()
    by_key = {key: request for request in requests for key in request.keys}
    played: Turns = {}
    over: set[SampleKey] = set()
    turns, waiting = TurnQueue(), list[SampleKey]()
    for sample in sampler.sample_turns(requests, decoding, turns):
        if sample is not None:
            played.setdefault(sample.key, []).append(sample)
            waiting.append(sample.key)
        assert open_limit is None or len(played) - len(over) <= open_limit
        if delays is not None:
            delays.shuffle(waiting)
        for key in list(waiting) if delays is None else waiting[: delays.integers(len(waiting) + 1)]:
            waiting.remove(key)
            reply = script.reply(key, len(played[key]))
            if reply is None:
                over.add(key)
                turns.end(key)
            else:
                turns.add(next_turn(by_key[key], played[key], reply, decoding))
    assert over == set(by_key)
    return played
