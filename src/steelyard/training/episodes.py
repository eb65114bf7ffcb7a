"""Play episodes: sample a turn, get the environment's reply and sample the next turn, until the episode ends.

Sampled text is never tokenised again: the tokens of a reply are appended to the sampled tokens. If the chat template
rewrites the conversation, the next turn starts a new row (``policies/tokens/conversation.py``). An episode that reaches
a limit is ended by the environment's ``cut_off``.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from steelyard.constraints.support_tables import join_tables
from steelyard.errors import PolicyError
from steelyard.policies.tokens.conversation import Continuation, Conversation, Conversations
from steelyard.sampling.base import Closeable, Decoding, EpisodeSampler, NextTurn, SampleRequest, TurnQueue
from steelyard.types import (
    NO_DECISIONS,
    Decisions,
    FinishReason,
    GroupKey,
    IntArray,
    Reply,
    Sample,
    SampleKey,
    SupportTable,
    Turn,
    Verdict,
)
from steelyard.verification import Cause, Item, Pool

WAIT_SECONDS = 0.05
"""How long to wait for a reply before returning control to the sampler."""

Result = tuple[Sample, Verdict]


@dataclass(frozen=True, slots=True)
class EpisodeLimits:
    """Limits that end an episode before its environment does."""

    max_turns: int
    """Maximum number of policy turns."""
    max_tokens: int | None = None
    """Maximum number of tokens after the prompt, including those of replies."""
    max_row: int | None = None
    """Maximum length of a row: the number of positions of the model."""


class Episodes:
    """Samples whole episodes, using a sampler of single turns and a pool that runs the environment.

    The verdict of an episode is known when the episode ends; the pool ``verdicts`` returns it. The loop, evaluations
    and commands can therefore treat an episode like any other sample.
    """

    def __init__(
        self,
        sampler: EpisodeSampler,
        pool: Pool,
        conversations: Conversations,
        limits: EpisodeLimits,
        *,
        starts: bool = False,
        fixed_order: bool = False,
    ) -> None:
        """``starts``: the environment provides the initial observation; otherwise the task's prompt is used.

        ``fixed_order``: continue turns in an order that does not depend on how long replies take. The sampler's
        batches, and therefore every bit of the log-probs, are then the same in every run.
        """
        self.sampler, self.pool, self.conversations, self.limits = sampler, pool, conversations, limits
        self.starts, self.fixed_order = starts, fixed_order
        self.verdicts = EpisodeVerdicts(pool)

    def publish(self, version: int) -> None:
        self.sampler.publish(version)

    def close(self) -> None:
        """Close the sampler of turns; closing ``verdicts`` closes the pool."""
        if isinstance(self.sampler, Closeable):
            self.sampler.close()

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        """Yield episodes as they end."""
        started, failed = _start(self.pool, requests) if self.starts else (list(requests), [])
        usable = [request for request in started if not self.starts or not self._unusable(request, decoding, failed)]
        for sample, verdict in failed:
            self.verdicts.keep(sample.key, verdict)
            yield sample
        for sample, verdict in _Play(self, usable, decoding).run():
            self.verdicts.keep(sample.key, verdict)
            yield sample

    def _unusable(self, request: SampleRequest, decoding: Decoding, failed: list[Result]) -> bool:
        """Return whether the model cannot read the initial observation; if so, add its samples to ``failed``."""
        try:
            length = len(self.conversations.codec.encode(request.task.prompt))
        except PolicyError as error:
            reason = str(error)
        else:
            limit = self.limits.max_row
            if limit is None or length + decoding.max_new_tokens <= limit:
                return False
            reason = (
                f"the initial observation has {length} tokens; with sampling.max_new_tokens = "
                f"{decoding.max_new_tokens} it exceeds the model's {limit} positions; shorten it"
            )
        failed += [(_empty(key), _bad_reply(self.pool, key, reason)) for key in request.keys]
        return True


class EpisodeVerdicts(Pool):
    """A pool that returns the verdicts of episodes that have ended; ``pool`` runs the environment."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._known: dict[SampleKey, Verdict] = {}
        self._submitted: deque[SampleKey] = deque()

    def keep(self, key: SampleKey, verdict: Verdict) -> None:
        """Store the verdict of an episode until the episode is submitted."""
        self._known[key] = verdict

    def submit(self, items: Sequence[Item]) -> None:
        self._submitted.extend(item.sample.key for item in items)

    def completed(self, *, wait: bool | float) -> Iterator[tuple[SampleKey, Verdict]]:
        while self._submitted:
            key = self._submitted.popleft()
            yield key, self._known.pop(key)

    def metrics(self) -> dict[str, float]:
        return self.pool.metrics()

    def close(self) -> None:
        self.pool.close()


class _Play:
    """Unfinished episodes, which alternate between a sampler and a pool."""

    def __init__(self, settings: Episodes, requests: Sequence[SampleRequest], decoding: Decoding) -> None:
        self.limits, self.pool, self.decoding = settings.limits, settings.pool, decoding
        self.fixed_order = settings.fixed_order
        self.waiting: deque[SampleKey] = deque()
        """Episodes that wait for a reply, in the order in which they were submitted; used only with ``fixed_order``."""
        self.arrived: dict[SampleKey, Verdict] = {}
        """Answers that arrived before those of episodes submitted earlier."""
        self.turns = TurnQueue()
        self.stream = settings.sampler.sample_turns(requests, decoding, self.turns)
        self.episodes = {
            key: _Episode(request, settings.conversations.open(request.task.prompt), self.limits, decoding)
            for request in requests
            for key in request.keys
        }

    def run(self) -> Iterator[Result]:
        for sample in self.stream:
            if sample is not None:
                episode = self.episodes[sample.key]
                episode.add_turn(sample)
                self._submit(episode)
            for key, verdict in self._answers(idle=sample is None):
                if (finished := self._answered(self.episodes[key], key, verdict)) is not None:
                    self.turns.end(key)
                    del self.episodes[key]
                    yield finished

    def _submit(self, episode: _Episode) -> None:
        outline = episode.outline()
        self.pool.submit([Item(episode.request.task, outline, episode.request.count)])
        if self.fixed_order:
            self.waiting.append(outline.key)

    def _answers(self, *, idle: bool) -> Iterator[tuple[SampleKey, Verdict]]:
        """Yield the answers to process now; ``idle``: the sampler has no other work.

        With ``fixed_order``, up to a third of the episodes may wait while the others are sampled, and the order of the
        turns alone determines which episodes continue.
        """
        if not self.fixed_order:
            yield from _arrived(self.pool, wait=idle)
            return
        most = len(self.waiting) // 2 if idle else len(self.episodes) // 3
        while len(self.waiting) > most:
            key = self.waiting.popleft()
            yield key, self._answer_to(key)

    def _answer_to(self, key: SampleKey) -> Verdict:
        """Wait for the environment's answer to one episode."""
        while key not in self.arrived:
            self.arrived.update([next(iter(self.pool.completed(wait=True)))])
        return self.arrived.pop(key)

    def _answered(self, episode: _Episode, key: SampleKey, verdict: Verdict) -> Result | None:
        """Continue the episode after a reply, or return it with its verdict."""
        if verdict.reply is None:
            return episode.sample(), episode.verdict(verdict)
        try:
            request = episode.continue_with(verdict.reply, key)
        except PolicyError as error:
            return episode.sample(), _bad_reply(self.pool, key, str(error))
        if request is None:
            self._submit(episode)
        else:
            self.turns.add(request)
        return None


@dataclass(slots=True, eq=False)
class _Episode:
    """An unfinished episode."""

    request: SampleRequest
    conversation: Conversation
    limits: EpisodeLimits
    decoding: Decoding
    rows: list[list[Sample]] = field(default_factory=lambda: [[]])
    """The policy's turns as the sampler returned them, by row."""
    turns: list[Turn] = field(default_factory=list[Turn])
    starts: list[int] = field(default_factory=list[int])
    """Offset in the episode's text at which each turn of the policy starts."""
    rewards: list[float] = field(default_factory=list[float])
    """Rewards from the replies, one for each answered turn of the policy."""
    text: str = ""
    finish: FinishReason = "stop"

    @property
    def last(self) -> Sample:
        return self.rows[-1][-1]

    @property
    def written(self) -> int:
        """Number of turns that the policy has written."""
        return sum(len(row) for row in self.rows)

    def add_turn(self, sample: Sample) -> None:
        """Add a turn that the policy wrote."""
        self.rows[-1].append(sample)
        self.starts.append(len(self.text))
        self.text += sample.text
        end, row = len(sample.token_ids), len(self.rows) - 1
        self.turns.append(Turn("assistant", sample.text, sample.prompt_length, end, row))
        self.finish = sample.finish
        if sample.truncated and len(sample.completion_ids) < self.decoding.max_new_tokens:
            self.finish = "episode_length"

    def continue_with(self, reply: Reply, key: SampleKey) -> SampleRequest | None:
        """Add a reply and return the request for the next turn; None if the episode has reached a limit."""
        self.rewards.append(reply.reward or 0.0)
        last = self.last
        end_ids = last.token_ids[:0] if last.truncated else last.token_ids[-1:]
        end = self.conversation.conversations.codec.tokenizer.decode(end_ids.tolist())
        continuation = self.conversation.reply(last.text, end, reply.messages)
        token_ids = self._add_reply(reply, continuation)
        budget = self._budget(token_ids)
        if self.written >= self.limits.max_turns:
            self.finish = "turns"
        elif budget < 1:
            self.finish = "episode_length"
        else:
            task = self.request.task
            task = replace(task, spec={**task.spec, **reply.spec})
            drawn = sum(len(sample.completion_ids) for row in self.rows for sample in row)
            turn = NextTurn(key.sample, token_ids, drawn, budget)
            return replace(self.request, task=task, count=1, next_turn=turn)
        return None

    def _add_reply(self, reply: Reply, continuation: Continuation) -> np.ndarray:
        """Record the messages of a reply, and return all tokens before the next turn."""
        ids = np.asarray(continuation.ids, np.int32)
        if continuation.forks:
            self.rows.append([])
        before = ids[:0] if continuation.forks else self._last_written().token_ids
        start, end = len(before), len(before) + len(ids)
        for message in reply.messages:
            self.text += message["content"]
            self.turns.append(Turn(message["role"], message["content"], start, end, len(self.rows) - 1))
            start = end
        return np.concatenate([before, ids])

    def _last_written(self) -> Sample:
        """Return the last turn of the policy, also if a fork has started a new row since then."""
        return next(row[-1] for row in reversed(self.rows) if row)

    def _budget(self, token_ids: np.ndarray) -> int:
        """Return the maximum number of tokens in the next turn."""
        replies = sum(turn.end - turn.start for turn in self.turns if turn.role != "assistant")
        sampled = sum(len(sample.completion_ids) for row in self.rows for sample in row)
        left = math.inf if self.limits.max_tokens is None else self.limits.max_tokens - sampled - replies
        room = math.inf if self.limits.max_row is None else self.limits.max_row - len(token_ids)
        return int(min(self.decoding.max_new_tokens, left, room))

    def outline(self) -> Sample:
        """Return what the environment needs of the episode: its turns, without tokens and decisions."""
        key, turns = self._last_written().key, tuple(self.turns)
        return Sample(key, np.zeros(0, np.int32), 0, self.text, self.finish, NO_DECISIONS, turns=turns)

    def sample(self) -> Sample:
        """Return the episode as one sample."""
        places = iter(self.starts)
        rows = [_row(row, [next(places) for _ in row]) for row in self.rows if row]
        last = rows[-1]
        return replace(
            last,
            text=self.text,
            finish=self.finish,
            turns=tuple(self.turns),
            earlier_rows=tuple(rows[:-1]),
            observation=self.request.task.prompt,
        )

    def verdict(self, verdict: Verdict) -> Verdict:
        """Return the final verdict with turn rewards; the verdict's own reward is added to the last turn.

        The total reward of a rejected episode is the floor, regardless of earlier rewards: its last turn makes up the
        difference.
        """
        if verdict.turn_rewards:
            return _checked_turn_rewards(verdict, self.written)
        if not verdict.has_reward or not any(self.rewards) or verdict.steps:
            return verdict
        rewards = [*self.rewards, 0.0][: self.written]
        if verdict.status == "rejected":
            rewards[-1] = verdict.reward - math.fsum(rewards[:-1])
            return replace(verdict, turn_rewards=tuple(rewards))
        rewards[-1] += verdict.reward
        return replace(verdict, reward=math.fsum(rewards), turn_rewards=tuple(rewards))


def _checked_turn_rewards(verdict: Verdict, turns: int) -> Verdict:
    """Return the verdict, or an unscored one if its turn rewards do not match the episode."""
    total = math.fsum(verdict.turn_rewards)
    if len(verdict.turn_rewards) != turns:
        reason = f"the verdict has {len(verdict.turn_rewards)} turn rewards, but the policy wrote {turns} turns"
    elif not math.isclose(total, verdict.reward, rel_tol=1e-6, abs_tol=1e-6):
        reason = f"the turn rewards add up to {total:g}, but the reward of the episode is {verdict.reward:g}"
    else:
        return verdict
    return Verdict.unscored(Cause.BAD_RETURN, reason)


def _row(turns: Sequence[Sample], starts: Sequence[int]) -> Sample:
    """Join the turns of one row; the last turn contains the tokens of all earlier ones."""
    first, last = turns[0], turns[-1]
    decisions = [turn.decisions for turn in turns]
    position_N = np.concatenate([each.position_N for each in decisions])
    support_N, supports = _supports(decisions)
    joined = Decisions(
        position_N=position_N,
        forward_N=position_N - first.prompt_length,
        logp_N=np.concatenate([each.logp_N for each in decisions]),
        rule=last.decisions.rule,
        support_N=support_N,
        supports=supports,
        text_start_N=_start_offsets(decisions, starts),
    )
    return replace(last, prompt_length=first.prompt_length, decisions=joined, policy_version=first.policy_version)


def _supports(decisions: Sequence[Decisions]) -> tuple[IntArray | None, SupportTable | None]:
    """Join the supports of several turns."""
    tables = [each.supports for each in decisions if each.supports is not None]
    if not tables:
        return None, None
    shifts = np.cumsum([0, *(len(table) for table in tables)])[:-1]
    indices = [each.support_N for each in decisions if each.support_N is not None]
    shifted = [np.where(index_N < 0, index_N, index_N + shift) for index_N, shift in zip(indices, shifts, strict=True)]
    return np.concatenate(shifted).astype(np.int32), join_tables(tables)


def _start_offsets(decisions: Sequence[Decisions], starts: Sequence[int]) -> np.ndarray | None:
    offsets = [
        each.text_start_N + start
        for each, start in zip(decisions, starts, strict=True)
        if each.text_start_N is not None
    ]
    return np.concatenate(offsets).astype(np.int32) if len(offsets) == len(decisions) else None


def _start(pool: Pool, requests: Sequence[SampleRequest]) -> tuple[list[SampleRequest], list[Result]]:
    """Ask the environment for the initial observation of each task; samples of tasks that fail are unscored."""
    pool.submit([Item(request.task, _empty(request.keys[0]), request.count) for request in requests])
    answers: Mapping[GroupKey, Verdict] = {key[:3]: verdict for key, verdict in pool.completed(wait=True)}
    started: list[SampleRequest] = []
    failed: list[Result] = []
    for request in requests:
        answer = answers[request.keys[0][:3]]
        if answer.reply is not None:
            prompt = answer.reply.messages
            plain = isinstance(request.task.prompt, str) and len(prompt) == 1 and prompt[0]["role"] == "user"
            task = replace(
                request.task,
                prompt=prompt[0]["content"] if plain else prompt,
                spec={**request.task.spec, **answer.reply.spec},
            )
            started.append(replace(request, task=task))
        else:
            failed += [(_empty(key), _unstarted(answer)) for key in request.keys]
    return started, failed


def _bad_reply(pool: Pool, key: SampleKey, reason: str) -> Verdict:
    """Return the verdict of an episode whose reply the model cannot read."""
    verdict = Verdict.unscored(Cause.BAD_RETURN, reason)
    pool.observe(key, verdict)
    return verdict


def _unstarted(answer: Verdict) -> Verdict:
    if answer.status == "unscored":
        return answer
    reason = f"the environment returned a verdict instead of an initial observation: {answer.reason}"
    return Verdict.unscored(answer.cause or Cause.BAD_RETURN, reason)


def _empty(key: SampleKey) -> Sample:
    """Return a sample without tokens, for an episode that has not started."""
    return Sample(key, np.zeros(0, np.int32), 0, "", "stop", NO_DECISIONS)


def _arrived(pool: Pool, *, wait: bool) -> Iterator[tuple[SampleKey, Verdict]]:
    """Yield the answers that have arrived; with ``wait``, wait briefly for the first one."""
    if wait:
        first = next(iter(pool.completed(wait=WAIT_SECONDS)), None)
        if first is None:
            return
        yield first
    yield from pool.completed(wait=False)
