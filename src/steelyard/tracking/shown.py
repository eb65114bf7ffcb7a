"""Selects the samples of a step that are shown to the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard.tracking.transcript import ShownTurn, shown_turns
from steelyard.types import FinishReason, Group, Message, Prompt, Sample, Task, Verdict


@dataclass(frozen=True, slots=True)
class ShownSample:
    label: str
    """``best``, ``median`` or ``worst``."""
    task_id: str
    prompt: Prompt
    text: str
    verdict: Verdict
    spec: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Spec of the task."""
    turns: tuple[ShownTurn, ...] = ()
    """The turns of an episode; empty for any other sample."""
    finish: FinishReason = "stop"

    @property
    def messages(self) -> tuple[Message, ...]:
        """The turns of an episode as chat messages."""
        return tuple({"role": turn.role, "content": turn.text} for turn in self.turns)


def select_samples(groups: Iterable[Group]) -> list[ShownSample]:
    """Select the best, median and worst sample by reward, or fewer if fewer samples have a reward.

    Ties are ordered by slot and sample, so a resumed run selects the same samples.
    """
    counted = [
        (verdict, sample, group.task)
        for group in groups
        for sample, verdict in zip(group.samples, group.verdicts, strict=True)
        if verdict.has_reward
    ]
    counted.sort(key=lambda item: (-item[0].reward, item[1].key))
    last = len(counted) - 1
    places = {"best": 0, "median": last // 2, "worst": last}
    shown: dict[int, ShownSample] = {}
    for label in ("best", "worst", "median"):
        place = places[label]
        if counted and place not in shown:
            verdict, sample, task = counted[place]
            turns = shown_turns(sample, verdict)
            prompt = prompt_of(task, sample)
            shown[place] = ShownSample(
                label, task.id, prompt, sample.text, verdict, task.spec, turns=turns, finish=sample.finish
            )
    return [shown[place] for place in sorted(shown)]


def prompt_of(task: Task, sample: Sample) -> Prompt:
    """Return the text that the sample started from: the initial observation of an episode, or the task's prompt."""
    return task.prompt if sample.observation is None else sample.observation


def prompt_text(prompt: Prompt) -> str:
    """Format a prompt as text, with one ``role: content`` line per chat message."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(f"{message.get('role', '?')}: {message.get('content', '')}" for message in prompt)
