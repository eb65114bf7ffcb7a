"""The nouns of Steelyard: frozen, plain data that every part passes to the next.

Read this file first. A *task* says what to make, a *sample* is what the policy made, a *verdict* is what the
checker said of it, and a *group* is one task with its samples and verdicts. Nothing here imports torch, so
verifier workers start fast and small.

Shape suffixes used across the code base: ``N`` decisions, ``M`` samples, ``G`` samples of one group, ``B`` rows of
a batch, ``T`` positions of a row, ``V`` vocabulary, ``D`` hidden width.
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
"""A plain string, or chat messages that go through the model's own template."""

HOLE = "\N{WHITE SQUARE}"
"""In a prompt for a policy that fills in: one token that is to be filled."""

FinishReason = Literal["stop", "length"]
VerdictStatus = Literal["scored", "rejected", "unscored"]


@dataclass(frozen=True, slots=True)
class Task:
    """What to make. ``spec`` is plain data that the verifier understands (columns of a data set, a brief)."""

    id: str
    prompt: Prompt
    spec: Mapping[str, Any] = field(default_factory=dict[str, Any])
    difficulty: float | None = None


class SampleKey(NamedTuple):
    """Where a sample belongs; it orders batches and keys every random draw made for the sample."""

    step: int
    slot: int
    """Which of the step's tasks."""
    attempt: int
    """How often the slot was refilled before."""
    sample: int
    """Which sample of the group."""


@dataclass(frozen=True, slots=True)
class CutRule:
    """How a distribution is cut before it is drawn from, always in this order:

    constraint, then ``logits / temperature``, then top-k, then top-p, then min-p, then renormalise.
    """

    temperature: float = 1.0
    top_k: int = 0
    """Keep the k most likely tokens; 0 keeps all."""
    top_p: float = 1.0
    """Keep the smallest set of most likely tokens whose mass reaches p; 1 keeps all."""
    min_p: float = 0.0
    """Keep tokens at least this likely relative to the most likely one; 0 keeps all."""

    @property
    def cuts(self) -> bool:
        """Whether the rule can remove tokens (temperature alone cannot)."""
        return self.top_k > 0 or self.top_p < 1.0 or self.min_p > 0.0


@dataclass(frozen=True, slots=True, eq=False)
class SupportTable:
    """Sets of tokens, each stored once and as small as it gets; ``steelyard.constraints.trail`` writes and reads it."""

    vocabulary: int
    form: NDArray[np.uint8]
    """How each set is stored: its packed bits, its members, or what is missing from it."""
    start: NDArray[np.int64]
    """Set ``i`` is in ``data[start[i]:start[i + 1]]``."""
    data: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.form)


class Replay(NamedTuple):
    """What it takes to follow a constraint along a sample again, instead of storing the supports it gave."""

    task: Task
    budget: int
    """How many tokens the sample could have had."""


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """The choices a policy made in one sample, as parallel arrays over its ``N`` decisions.

    Every token of the sample that is not listed here (prompt, forced tokens, a tool's answer) is context.
    """

    position_N: IntArray
    """Index of the drawn token in ``Sample.token_ids``."""
    forward_N: IntArray
    """Which forward pass drew it: for causal text the running number, for fill-in the denoising step."""
    logp_N: FloatArray
    """Behaviour log-prob: under the distribution that was really drawn from."""
    rule: CutRule = CutRule()
    support_N: IntArray | None = None
    """Index into ``supports`` of the set that could have been drawn, -1 for everything that the policy samples.
    ``None``: everything at every decision, or, if ``left_out``, not stored."""
    supports: SupportTable | None = None
    left_out: bool = False
    """The supports are not stored: the learner finds them again from ``replay`` and ``rule`` before it uses them."""
    replay: Replay | None = None
    """The constraint the sample was made under, if ``left_out`` and there was one."""
    start_N: IntArray | None = None
    """Offset in ``Sample.text`` at which each token starts: the length of the text before it. ``None``: not recorded,
    as in samples that no sampler made; only step rewards need it."""

    def __len__(self) -> int:
        return len(self.position_N)


NO_DECISIONS = Decisions(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32))
"""Of a text that no policy sampled, or of a sample that travels without them."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """What the policy made for a task, with all the learner needs to score it again."""

    key: SampleKey
    token_ids: IntArray
    """Prompt and completion, no padding. For fill-in the prompt is the trace: the inputs of the forward passes, each as
    long as the completion."""
    prompt_length: int
    text: str
    """The completion as text: every token that was sampled, except the one that ended it."""
    finish: FinishReason
    decisions: Decisions
    policy_version: int = 0

    @property
    def truncated(self) -> bool:
        """Whether it was cut off at the length limit, before its end."""
        return self.finish == "length"

    @property
    def completion_ids(self) -> IntArray:
        return self.token_ids[self.prompt_length :]

    def summary(self) -> SampleSummary:
        return SampleSummary(self.key, len(self.completion_ids), self.truncated, self.policy_version)


class SampleSummary(NamedTuple):
    """What metrics and task sources need of a sample; its key finds the rest."""

    key: SampleKey
    length: int
    """Tokens of the completion."""
    truncated: bool
    policy_version: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checker said of a sample.

    ``scored``: it was judged. ``rejected``: the sample is invalid, the model's fault; ``reward`` is the floor.
    ``unscored``: the checker failed; never learnt from, always counted.
    """

    status: VerdictStatus
    reward: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    success: bool = False
    steps: tuple[tuple[int, float], ...] = ()
    """Optional step rewards as (end offset in the sample's text, reward); offsets rise."""
    reason: str = ""
    """Why it was rejected or not scored, in a line or two, and the end of what the checker printed."""
    cause: str = ""
    """The kind of accident (``exception``, ``timeout``, ...) if the checker failed; also of a sample that was rejected
    because the same accident came again. Empty for every other verdict."""
    detail: str = ""
    """Which exit code or signal, where the cause has several."""
    tries: int = 1
    """How often the checker was asked."""
    open_floor: bool = False
    """Rejected without a declared floor: the group lowers ``reward`` to that of its worst scored sample."""

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
        """Without a floor of its own it gets that of the verifier that returns it."""
        return Verdict("rejected", reason=reason).with_floor(floor)

    @staticmethod
    def unscored(cause: str, reason: str = "", *, detail: str = "", tries: int = 1) -> Verdict:
        return Verdict("unscored", cause=cause, reason=reason, detail=detail, tries=tries)

    def with_floor(self, floor: float | None) -> Verdict:
        """The verdict with the floor as its reward; ``None``: 0 for now, the group settles it."""
        return replace(self, reward=0.0 if floor is None else floor, steps=(), open_floor=floor is None)

    @property
    def counts(self) -> bool:
        """Whether the verdict carries a reward to learn from."""
        return self.status != "unscored"

    @property
    def accident(self) -> bool:
        """Whether the checker failed, be the sample unscored or, since it failed twice alike, rejected."""
        return self.status == "unscored" or bool(self.cause)

    def to_json(self) -> dict[str, Any]:
        """Plain data that survives JSON, for files and process boundaries; what is empty is left out."""
        data: dict[str, Any] = {"status": self.status, "reward": self.reward, "success": self.success}
        if self.parts:
            data["parts"] = dict(self.parts)
        if self.steps:
            data["steps"] = [list(step) for step in self.steps]
        data |= {name: text for name in ("reason", "cause", "detail") if (text := getattr(self, name))}
        if self.tries != 1:
            data["tries"] = self.tries
        if self.open_floor:
            data["open_floor"] = True
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Verdict:
        fields: dict[str, Any] = dict(data)
        if fields["status"] not in get_args(VerdictStatus):
            raise ValueError(f"{fields['status']!r} is no status of a verdict")
        if "steps" in fields:
            fields["steps"] = tuple((int(end), float(reward)) for end, reward in fields["steps"])
        return Verdict(**fields)


def settle_floors(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """A sample rejected without a declared floor gets ``min(0, lowest scored reward)``: it never beats a scored one."""
    lowest = min((verdict.reward for verdict in verdicts if verdict.status == "scored"), default=0.0)
    return tuple(
        replace(verdict, reward=min(verdict.reward, lowest)) if verdict.open_floor else verdict for verdict in verdicts
    )


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """One task with its samples and, in the same order, their verdicts, floors settled."""

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
"""Step, slot and attempt of a group's samples."""


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A group without tokens, text and supports: a few dozen bytes per sample besides its verdict."""

    task: Task
    samples: tuple[SampleSummary, ...]
    verdicts: tuple[Verdict, ...]
    """In the order of the samples, floors settled."""

    @property
    def key(self) -> GroupKey:
        return self.samples[0].key[:3]
