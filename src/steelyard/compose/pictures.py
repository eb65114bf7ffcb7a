"""Draw the samples of a step with the run's domain."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from steelyard.domains.artifacts import Artifact
from steelyard.domains.base import Domain, title_of
from steelyard.tracking.artifacts import Picture
from steelyard.tracking.shown import ShownSample
from steelyard.types import Task


def build_picture(domain: Domain | None) -> Picture | None:
    """Return a function that draws recorded samples, or ``None`` for a run without a domain."""
    return None if domain is None else partial(sheet, domain)


def sheet(domain: Domain, shown: Sequence[ShownSample]) -> bytes:
    """Draw the samples side by side as SVG, each with its label, task description and verdict."""
    return domain.render([_artifact(domain, sample) for sample in shown], "svg")


def _artifact(domain: Domain, sample: ShownSample) -> Artifact:
    title = title_of(domain, Task(sample.task_id, sample.prompt, sample.spec))
    text = domain.episode_text(sample.messages) if sample.turns else sample.text
    return Artifact(domain.to_text(text), f"{sample.label} · {title}", sample.spec, sample.verdict)
