"""Data classes for artifacts: their text, highlights, reports and summaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from steelyard.types import Verdict

ColourBy = Literal["part", "stress"]
"""What the colours encode: the kind of each part, or how close it is to failure."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A policy's output as the text of a file (``Domain.to_text``), with its context."""

    text: str
    title: str = ""
    spec: Mapping[str, Any] | None = None
    """The ``Task.spec`` of the task that the text answers."""
    verdict: Verdict | None = None
    """``None`` for text from a file."""


class TextSpan(NamedTuple):
    """A span of text with a highlight."""

    text: str
    kind: Literal["plain", "given", "right", "made"] = "plain"
    """``given``: from the task; ``right``: written by the policy and equal to the original; ``made``: written by the
    policy and different; ``plain``: no highlight.
    """


class Row(NamedTuple):
    """A table row; rows that are not ``good`` are highlighted."""

    cells: tuple[str, ...]
    good: bool


@dataclass(frozen=True, slots=True)
class Report:
    """A human-readable, part-by-part verification report for one artifact."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    flaws: tuple[str, ...]
    """Lines that could not be parsed or placed, with their line numbers."""
    summary: tuple[str, ...]
    """A few lines; the first states the result."""
    good: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of many artifacts, such as how many are distinct and how many are new."""

    lines: tuple[str, ...]
    """Lines of text; the first states the result."""
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    page: str
    """The complete summary as HTML."""


def verdict_lines(verdict: Verdict) -> list[str]:
    """Summarise a verdict in caption lines: reward and success, or the cause of the failure."""
    if verdict.status == "unscored":
        return [f"unscored ({verdict.cause})"]
    if verdict.status == "rejected":
        return [f"reward {verdict.reward:.3f} · rejected", verdict.reason]
    return [f"reward {verdict.reward:.3f} · {'success' if verdict.success else 'failed'}"]
