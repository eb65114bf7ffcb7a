"""Functions that workers import by name."""

from __future__ import annotations

from steelyard.types import Task
from steelyard.verification import verifier


def length(task: Task, text: str) -> float:
    return float(len(text))


@verifier(floor=-1.0)
def declared(task: Task, text: str) -> float:
    return float(len(text))
