"""The samples of a step as a picture, drawn by the run's domain."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from steelyard.domains.artifacts import Artifact
from steelyard.domains.base import Domain, title_of
from steelyard.tracking.artifacts import Picture
from steelyard.tracking.shown import ShownSample
from steelyard.types import Task


def build_picture(domain: Domain | None) -> Picture | None:
    """What draws shown samples; ``None`` for a run without a domain."""
    return None if domain is None else partial(sheet, domain)


def sheet(domain: Domain, shown: Sequence[ShownSample]) -> bytes:
    """The samples next to each other as SVG, each with its label, its task in words, and its verdict."""
    return domain.render([_artifact(domain, sample) for sample in shown], "svg")


def _artifact(domain: Domain, sample: ShownSample) -> Artifact:
    title = title_of(domain, Task(sample.task_id, sample.prompt, sample.spec))
    return Artifact(domain.to_text(sample.text), f"{sample.label} · {title}", verdict=sample.verdict)
