"""The samples of a step as a picture, where the domain can draw."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from steelyard.compose.supplied import build_domain
from steelyard.config import Config
from steelyard.domains.base import Made, Workshop, workshop_of
from steelyard.tracking.artifacts import Picture
from steelyard.tracking.shown import ShownSample


def build_picture(config: Config) -> Picture | None:
    """What draws shown samples; ``None`` if the run's domain cannot."""
    domain = build_domain(config)
    workshop = None if domain is None else workshop_of(domain)
    return None if workshop is None else partial(sheet, workshop)


def sheet(workshop: Workshop, shown: Sequence[ShownSample]) -> bytes:
    """The samples side by side as SVG, each with its label, its task and its verdict."""
    things = [
        Made(workshop.plain(sample.text), f"{sample.label} · {sample.task_id}", verdict=sample.verdict)
        for sample in shown
    ]
    return workshop.look(things, "svg")
