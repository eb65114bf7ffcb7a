"""Formats episodes as text, turn by turn: the policy's text after ``│``, the environment's replies after ``>``.

Every line has its own mark, so that the policy's text cannot be mistaken for a reply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from steelyard.environments.base import LIMITS
from steelyard.text import printable
from steelyard.types import FinishReason, Sample, Verdict

POLICY_MARK, REPLY_MARK = "│ ", "> "
EMPTY = "(empty)"


class ShownTurn(NamedTuple):
    """One turn of an episode."""

    role: str
    text: str
    reward: float | None = None
    """Reward of a turn that the policy wrote, if turns have rewards."""

    @property
    def by_policy(self) -> bool:
        return self.role == "assistant"


class TranscriptLine(NamedTuple):
    """One printable line of a turn."""

    by_policy: bool
    text: str
    note: str = ""
    """The reward of the turn, on its last line."""

    @property
    def mark(self) -> str:
        return POLICY_MARK if self.by_policy else REPLY_MARK

    def __str__(self) -> str:
        return f"{self.mark}{self.text}{self.note}"


class Shown(Protocol):
    """A sample that is shown to the user."""

    @property
    def text(self) -> str: ...
    @property
    def turns(self) -> tuple[ShownTurn, ...]: ...
    @property
    def finish(self) -> FinishReason: ...
    @property
    def verdict(self) -> Verdict: ...


def shown_turns(sample: Sample, verdict: Verdict) -> tuple[ShownTurn, ...]:
    """Return the turns of an episode with their rewards, or an empty tuple for any other sample."""
    rewards = iter(verdict.turn_rewards)
    return tuple(
        ShownTurn(turn.role, turn.text, next(rewards, None) if turn.role == "assistant" else None)
        for turn in sample.turns
    )


def limit_note(turns: Sequence[ShownTurn], finish: FinishReason, verdict: Verdict) -> str:
    """Return which limit ended an episode; empty if there was none or the verdict already names it."""
    note = LIMITS.get(finish, "") if turns else ""
    return "" if note in verdict.reason else note


def transcript_lines(
    turns: Sequence[ShownTurn], wrap: Callable[[str, str], Sequence[str]] = lambda text, _: _lines(text)
) -> Iterator[TranscriptLine]:
    """Yield the lines of all turns. ``wrap`` splits text into lines that leave room for a note after the last line."""
    for turn in turns:
        note = "" if turn.reward is None else f"  (reward {turn.reward:.4g})"
        role = "" if turn.role in ("assistant", "user") else f"{turn.role}: "
        lines = list(wrap(role + turn.text, note)) or [EMPTY]
        for number, line in enumerate(lines, start=1):
            yield TranscriptLine(turn.by_policy, line, note if number == len(lines) else "")


def sample_text(sample: Shown) -> str:
    """Return an episode as text, with the limit that ended it if any; for any other sample, return its text."""
    if not sample.turns:
        return sample.text
    note = limit_note(sample.turns, sample.finish, sample.verdict)
    return "\n".join([*map(str, transcript_lines(sample.turns)), *([f"({note})"] if note else [])])


def _lines(text: str) -> list[str]:
    return printable(text).strip("\n").split("\n") if text.strip("\n") else []
