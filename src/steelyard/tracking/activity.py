"""What a run is doing at the moment: the phase of a step, and how much of it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class Phase(NamedTuple):
    """How a phase is called on the screen."""

    doing: str
    unit: str = ""
    """What is counted in it."""


PHASES = {
    "sample": Phase("sampling", "samples"),
    "verify": Phase("verifying", "verdicts"),
    "score": Phase("scoring"),
    "update": Phase("learning", "samples"),
    "publish": Phase("publishing weights"),
    "evaluate": Phase("evaluating"),
    "evaluate/sample": Phase("evaluating: sampling", "samples"),
    "evaluate/verify": Phase("evaluating: verifying", "verdicts"),
    "save": Phase("saving"),
    "restore": Phase("restoring the checkpoint"),
}
"""The phases of a training run, by the names that ``time/*`` gives them."""


@dataclass(frozen=True, slots=True)
class Activity:
    """A phase under way."""

    phase: str
    """A key of ``PHASES``."""
    done: int = 0
    total: int = 0
    """0: it is not counted."""
    note: str = ""
    """What else is known of it, such as ``12 verified``."""

    def __str__(self) -> str:
        phase = PHASES.get(self.phase, Phase(self.phase))
        counted = [f"{padded(self.done, self.total)}/{self.total} {phase.unit}".rstrip()] if self.total else []
        return ", ".join([" ".join([phase.doing, *counted]), *([self.note] if self.note else [])])


def padded(number: int, total: int) -> str:
    """A count that takes as much room as its total, so that what stands behind it stays in its place."""
    return f"{number:>{len(str(total))}}"


Report = Callable[[Activity], None]
"""Told of every change: which phase has begun, and each sample, verdict or microbatch that is done."""


def silent(_activity: Activity) -> None:
    """Nobody wants to know."""
