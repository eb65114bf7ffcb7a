"""Selects the samples of a step that are shown to the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard.types import Group, Prompt, Verdict


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
            shown[place] = ShownSample(label, task.id, task.prompt, sample.text, verdict, task.spec)
    return [shown[place] for place in sorted(shown)]


def prompt_text(prompt: Prompt) -> str:
    """Format a prompt as text, with one ``role: content`` line per chat message."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(f"{message.get('role', '?')}: {message.get('content', '')}" for message in prompt)
