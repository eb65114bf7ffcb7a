"""The current activity of a run: the phase of a step and its progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class Phase(NamedTuple):
    """The display name of a phase."""

    label: str
    unit: str = ""
    """Unit of the phase's progress count."""


PHASES = {
    "sample": Phase("sampling", "samples"),
    "verify": Phase("verifying", "verdicts"),
    "score": Phase("computing log-probs"),
    "update": Phase("learning", "samples"),
    "publish": Phase("publishing weights"),
    "evaluate": Phase("evaluating"),
    "evaluate/sample": Phase("evaluating: sampling", "samples"),
    "evaluate/verify": Phase("evaluating: verifying", "verdicts"),
    "save": Phase("saving"),
    "restore": Phase("restoring the checkpoint"),
}
"""Phases of a training run, by their names in ``time/*``."""


@dataclass(frozen=True, slots=True)
class Activity:
    """The current phase and its progress."""

    phase: str
    """A key of ``PHASES``."""
    done: int = 0
    total: int = 0
    """0 if the phase has no progress count."""
    note: str = ""
    """Additional information, such as ``12 verified``."""

    def __str__(self) -> str:
        phase = PHASES.get(self.phase, Phase(self.phase))
        counted = [f"{padded(self.done, self.total)}/{self.total} {phase.unit}".rstrip()] if self.total else []
        return ", ".join([" ".join([phase.label, *counted]), *([self.note] if self.note else [])])


def padded(number: int, total: int) -> str:
    """Pad a count to the width of its total, so that the text after it does not move."""
    return f"{number:>{len(str(total))}}"


Report = Callable[[Activity], None]
"""Called when a phase starts, and for each sample, verdict or microbatch that is completed."""


def silent(_activity: Activity) -> None:
    """Ignore the report."""
