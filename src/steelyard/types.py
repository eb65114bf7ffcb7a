"""Core data types of Steelyard: frozen dataclasses passed between components.

Read this file first. A *task* describes what to produce. A *sample* is the policy's output for a task. A *verdict*
is the verifier's result for one sample. A *group* is one task with its samples and their verdicts.

Nothing here imports torch, so verifier workers start quickly and use little memory.

Array names end in their dimensions: ``N`` decisions, ``M`` samples, ``G`` samples in a group, ``B`` rows in a batch,
``T`` positions in a row, ``V`` vocabulary size, ``D`` hidden width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float32]

Message = Mapping[str, str]
"""One chat message: ``{"role": ..., "content": ...}``."""

Prompt = str | tuple[Message, ...]
"""A plain string, or chat messages to be formatted with the model's chat template."""

HOLE = "\N{WHITE SQUARE}"
"""Marks one token to fill in, in the prompt of a masked (infilling) policy."""

FinishReason = Literal["stop", "length", "turns", "episode_length"]
"""``stop``: the policy ended the completion itself. ``length``: it was cut off at the token limit. An episode may also
reach its limit of turns (``turns``) or of tokens (``episode_length``)."""

FinalStatus = Literal["scored", "rejected", "unscored"]
VerdictStatus = FinalStatus | Literal["continues"]
"""``continues`` is the status of a reply within an episode."""


STATUSES: tuple[VerdictStatus, ...] = (*get_args(FinalStatus), "continues")


@dataclass(frozen=True, slots=True)
class Task:
    """A request to the policy: the prompt, and the data its verifier needs to score an answer."""

    id: str
    prompt: Prompt
    spec: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Plain data for the verifier, such as the other columns of a dataset."""
    difficulty: float | None = None


class SampleKey(NamedTuple):
    """Identifies a sample within a run. The key fixes the order of batches and seeds every random draw for the
    sample.
    """

    step: int
    slot: int
    """Index of the task within the step."""
    attempt: int
    """Number of times the slot's group has been replaced; 0 for the first group."""
    sample: int
    """Index of the sample within its group."""


@dataclass(frozen=True, slots=True)
class CutRule:
    """Temperature and truncation applied to the policy's distribution before sampling.

    The order is fixed: constraint, ``logits / temperature``, top-k, top-p, min-p, then renormalisation.
    """

    temperature: float = 1.0
    top_k: int = 0
    """Keep the k most likely tokens; 0 keeps all."""
    top_p: float = 1.0
    """Keep the smallest set of most likely tokens whose total probability reaches p; 1 keeps all."""
    min_p: float = 0.0
    """Keep tokens with at least ``min_p`` times the probability of the most likely token; 0 keeps all."""

    @property
    def cuts(self) -> bool:
        """Whether the rule can exclude tokens; temperature alone cannot."""
        return self.top_k > 0 or self.top_p < 1.0 or self.min_p > 0.0


@dataclass(frozen=True, slots=True, eq=False)
class SupportTable:
    """Token sets in compact form, each distinct set stored once. See ``steelyard.constraints.support_tables``."""

    vocabulary: int
    form: NDArray[np.uint8]
    """Encoding of each set: packed bits, a list of members, or a list of non-members."""
    start: NDArray[np.int64]
    """Set ``i`` is stored in ``data[start[i]:start[i + 1]]``."""
    data: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.form)


class SupportRecipe(NamedTuple):
    """Inputs for re-deriving a constrained sample's supports when they were not stored with the sample."""

    task: Task
    budget: int
    """Token limit under which the sample was drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """The sampled tokens of one sample, as parallel arrays over its ``N`` decisions.

    All other tokens of the sample (prompt, forced tokens, tool replies) are context and receive no gradient.
    """

    position_N: IntArray
    """Index of each sampled token in ``Sample.token_ids``."""
    forward_N: IntArray
    """Index of the forward pass that sampled each token: a count from 0 (causal) or the denoising step (infilling)."""
    logp_N: FloatArray
    """Behaviour log-prob: the log-prob under the exact distribution the token was sampled from."""
    rule: CutRule = CutRule()
    support_N: IntArray | None = None
    """Index into ``supports`` of the token set each decision was sampled from; -1 means every token the policy may
    sample. ``None`` means every token at every decision or, if ``supports_omitted``, not stored."""
    supports: SupportTable | None = None
    supports_omitted: bool = False
    """Whether supports are not stored; the learner derives them from ``support_recipe`` and ``rule`` when needed."""
    support_recipe: SupportRecipe | None = None
    """How to re-derive the constraint's supports; ``None`` if they are stored or there was no constraint."""
    text_start_N: IntArray | None = None
    """Character offset in ``Sample.text`` at which each token starts; only step rewards need it. ``None`` if the sample
    did not come from a sampler."""

    def __len__(self) -> int:
        return len(self.position_N)


NO_DECISIONS = Decisions(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32))
"""Used for text that was not sampled from a policy, and for samples sent to another process without decisions."""


class Turn(NamedTuple):
    """One message of an episode: written by the policy (``assistant``) or by its environment."""

    role: str
    text: str
    start: int
    """First token of the turn in the ``token_ids`` of its row; turn markers of the chat template belong to replies."""
    end: int
    row: int = 0
    """Index into ``Sample.rows``."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One completion of a task, with everything the learner needs to recompute its log-probs.

    An *episode* is a completion of several turns: the policy's turns and, as context, the environment's replies. It is
    one row of tokens unless the chat template rewrote the conversation in between; each rewritten conversation starts a
    new row. All rows share the key, the verdict and the credit of the episode.
    """

    key: SampleKey
    token_ids: IntArray
    """Prompt and completion, without padding. For infilling, the prompt part holds the trace: the input of every
    forward pass, each as long as the completion."""
    prompt_length: int
    text: str
    """The completion as text: all its tokens except the end token. For an episode, the joined texts of its turns."""
    finish: FinishReason
    decisions: Decisions
    policy_version: int = 0
    turns: tuple[Turn, ...] = ()
    """The turns of an episode in order, including replies; empty if the sample is not an episode."""
    earlier_rows: tuple[Sample, ...] = ()
    """Rows of the episode before the chat template rewrote the conversation."""
    observation: Prompt | None = None
    """The initial observation of an episode, for display; it may differ from the task's prompt."""

    @property
    def rows(self) -> tuple[Sample, ...]:
        """All token rows of the sample, which the learner scores; the last one is the sample itself."""
        return (*self.earlier_rows, self)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The turns as chat messages."""
        return tuple({"role": turn.role, "content": turn.text} for turn in self.turns)

    @property
    def truncated(self) -> bool:
        """Whether the completion was cut off at a limit."""
        return self.finish != "stop"

    @property
    def completion_ids(self) -> IntArray:
        return self.token_ids[self.prompt_length :]

    def summary(self) -> SampleSummary:
        length = sum(len(row.completion_ids) for row in self.rows)
        turns = sum(turn.role == "assistant" for turn in self.turns)
        return SampleSummary(self.key, length, self.truncated, self.policy_version, turns, self.finish)


class SampleSummary(NamedTuple):
    """The part of a sample that metrics and task sources need; ``key`` identifies the full sample."""

    key: SampleKey
    length: int
    """Number of tokens in the completion."""
    truncated: bool
    policy_version: int
    turns: int = 0
    """Number of policy turns in an episode; 0 for a sample that is not an episode."""
    finish: FinishReason = "stop"


@dataclass(frozen=True, slots=True)
class Reply:
    """An environment's reply to a turn of the policy, with which the episode continues."""

    messages: tuple[Message, ...]
    """Chat messages with a role other than ``assistant``; if prompts are plain text, only their contents are used."""
    reward: float | None = None
    """Reward of the turn that the policy just wrote; the rewards of all turns add up to that of the episode."""
    spec: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Entries of ``Task.spec`` for the next turn, such as the legal moves that a constraint reads."""

    @staticmethod
    def text(content: str, *, reward: float | None = None, spec: Mapping[str, Any] | None = None) -> Reply:
        """Build a reply that consists of one user message."""
        return Reply(({"role": "user", "content": content},), reward, dict(spec or {}))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verifier's result for one sample.

    ``scored``: the verifier returned a reward. ``rejected``: the sample is invalid, and the model is at fault;
    ``reward`` is the floor. ``unscored``: the verifier itself failed; the sample is counted but never trained on.
    ``continues``: an environment replied, and the episode is not over; never the verdict of a finished sample.
    """

    status: VerdictStatus
    reward: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    """Named components of the reward, for metrics."""
    success: bool = False
    steps: tuple[tuple[int, float], ...] = ()
    """Optional step rewards as (end offset in the sample's text, reward), in increasing order of offset."""
    turn_rewards: tuple[float, ...] = ()
    """Optional rewards of an episode's turns, one for each turn that the policy wrote; they add up to ``reward``."""
    reason: str = ""
    """Why the sample was rejected or not scored: a line or two, and the end of the verifier's output."""
    cause: str = ""
    """Kind of verifier failure (``exception``, ``timeout``, ...). Also set on a sample that was rejected because the
    same failure occurred on every attempt. Empty for every other verdict."""
    detail: str = ""
    """Exit code or signal, for causes that have one."""
    tries: int = 1
    """Number of times the verifier was run."""
    open_floor: bool = False
    """Whether the sample was rejected without a declared floor; ``settle_floors`` sets ``reward`` from the group's
    scored samples."""
    reply: Reply | None = None
    """The reply with which the episode continues, if it is not over."""

    @staticmethod
    def continues(reply: Reply) -> Verdict:
        return Verdict("continues", reply=reply)

    @staticmethod
    def scored(
        reward: float,
        *,
        success: bool = False,
        parts: Mapping[str, float] | None = None,
        steps: Sequence[tuple[int, float]] = (),
    ) -> Verdict:
        return Verdict("scored", float(reward), dict(parts or {}), success, tuple(steps))

    @staticmethod
    def rejected(reason: str, *, floor: float | None = None) -> Verdict:
        """Reject a sample. Without ``floor``, the floor of the verifier that returns the verdict is used."""
        return Verdict("rejected", reason=reason).with_floor(floor)

    @staticmethod
    def unscored(cause: str, reason: str = "", *, detail: str = "", tries: int = 1) -> Verdict:
        return Verdict("unscored", cause=cause, reason=reason, detail=detail, tries=tries)

    def with_floor(self, floor: float | None) -> Verdict:
        """Return a copy with the floor as reward; with ``None``, the reward is 0 until ``settle_floors`` sets it."""
        reward = 0.0 if floor is None else floor
        return replace(self, reward=reward, steps=(), turn_rewards=(), open_floor=floor is None)

    def with_reward(self, reward: float) -> Verdict:
        """Return a copy with another reward; the difference is added to the last turn."""
        turns = self.turn_rewards and (*self.turn_rewards[:-1], self.turn_rewards[-1] + reward - self.reward)
        return replace(self, reward=reward, turn_rewards=turns)

    @property
    def has_reward(self) -> bool:
        """Whether the verdict has a reward to train on (scored or rejected)."""
        return self.status in ("scored", "rejected")

    @property
    def verifier_failed(self) -> bool:
        """Whether the verifier failed: the sample is unscored, or rejected because all attempts failed in the same
        way.
        """
        return self.status == "unscored" or bool(self.cause)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-serialisable form for files and other processes; empty fields are omitted."""
        data: dict[str, Any] = {"status": self.status, "reward": self.reward, "success": self.success}
        if self.parts:
            data["parts"] = dict(self.parts)
        if self.steps:
            data["steps"] = [list(step) for step in self.steps]
        if self.turn_rewards:
            data["turn_rewards"] = list(self.turn_rewards)
        data |= {name: text for name in ("reason", "cause", "detail") if (text := getattr(self, name))}
        if self.tries != 1:
            data["tries"] = self.tries
        if self.open_floor:
            data["open_floor"] = True
        if (reply := self.reply) is not None:
            messages = [dict(message) for message in reply.messages]
            data["reply"] = {"messages": messages, "reward": reply.reward, "spec": dict(reply.spec)}
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Verdict:
        fields: dict[str, Any] = dict(data)
        if fields["status"] not in STATUSES:
            raise ValueError(f"verdict status {fields['status']!r} must be one of {', '.join(STATUSES)}")
        if "steps" in fields:
            fields["steps"] = tuple((int(end), float(reward)) for end, reward in fields["steps"])
        if "turn_rewards" in fields:
            fields["turn_rewards"] = tuple(float(reward) for reward in fields["turn_rewards"])
        if "reply" in fields:
            reply = fields["reply"]
            fields["reply"] = Reply(tuple(reply["messages"]), reply["reward"], reply["spec"])
        return Verdict(**fields)


def settle_floors(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """Set undeclared floors to ``min(0, lowest scored reward)``, so that no rejected sample beats a scored one."""
    lowest = min((verdict.reward for verdict in verdicts if verdict.status == "scored"), default=0.0)
    return tuple(
        verdict.with_reward(min(verdict.reward, lowest)) if verdict.open_floor else verdict for verdict in verdicts
    )


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """One task with its samples and their verdicts, in the same order. Floors are settled on construction."""

    task: Task
    samples: tuple[Sample, ...]
    verdicts: tuple[Verdict, ...]

    def __post_init__(self) -> None:
        if len(self.samples) != len(self.verdicts):
            raise ValueError(f"group {self.task.id}: {len(self.samples)} samples, {len(self.verdicts)} verdicts")
        object.__setattr__(self, "verdicts", settle_floors(self.verdicts))

    @property
    def key(self) -> GroupKey:
        return self.samples[0].key[:3]

    def summary(self) -> GroupSummary:
        return GroupSummary(self.task, tuple(sample.summary() for sample in self.samples), self.verdicts)


GroupKey = tuple[int, int, int]
"""Step, slot and attempt: the first three fields of ``SampleKey``."""


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A group without tokens, text and supports: a few dozen bytes per sample plus its verdict."""

    task: Task
    samples: tuple[SampleSummary, ...]
    verdicts: tuple[Verdict, ...]
    """In sample order, with floors settled."""

    @property
    def key(self) -> GroupKey:
        return self.samples[0].key[:3]
