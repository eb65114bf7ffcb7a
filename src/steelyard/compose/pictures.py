"""The samples of a step as a picture, where the domain can draw."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from steelyard.compose.supplied import build_domain
from steelyard.config import Config
from steelyard.domains.base import Domain, Made, Workshop, describe, workshop_of
from steelyard.tracking.artifacts import Picture
from steelyard.tracking.shown import ShownSample
from steelyard.types import Task


def build_picture(config: Config) -> Picture | None:
    """What draws shown samples; ``None`` if the run's domain cannot."""
    domain = build_domain(config)
    workshop = None if domain is None else workshop_of(domain)
    return None if domain is None or workshop is None else partial(sheet, domain, workshop)


def sheet(domain: Domain, workshop: Workshop, shown: Sequence[ShownSample]) -> bytes:
    """The samples next to each other as SVG, each with its label, what was asked for, and its verdict."""
    things = [
        Made(workshop.plain(sample.text), f"{sample.label} · {_asked(domain, sample)}", verdict=sample.verdict)
        for sample in shown
    ]
    return workshop.look(things, "svg")


def _asked(domain: Domain, sample: ShownSample) -> str:
    return describe(domain, Task(sample.task_id, sample.prompt, sample.spec))
