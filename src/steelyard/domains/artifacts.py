"""Plain data about artifacts: text, highlights, reports and summaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from steelyard.types import Verdict

ColourBy = Literal["part", "stress"]
"""Meaning of colours: the kind of a part, or how close it is to failure."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """The text of a policy's output in file form (``Domain.to_text``), with its context."""

    text: str
    title: str = ""
    spec: Mapping[str, Any] | None = None
    """``Task.spec`` of the task that it answers."""
    verdict: Verdict | None = None
    """``None`` for a text from a file."""


class TextSpan(NamedTuple):
    """A part of a text with a highlight."""

    text: str
    kind: Literal["plain", "given", "right", "made"] = "plain"
    """``given`` by the task, written by the policy and equal to the original (``right``) or not (``made``), or
    ``plain``.
    """


class Row(NamedTuple):
    """A row of a table; rows that are not ``good`` are highlighted."""

    cells: tuple[str, ...]
    good: bool


@dataclass(frozen=True, slots=True)
class Report:
    """A human-readable result of verifying one artifact, part by part."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    flaws: tuple[str, ...]
    """Lines that could not be read or placed, with their line numbers."""
    summary: tuple[str, ...]
    """A few lines; the first states the result."""
    good: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of many artifacts, such as the number of distinct and of new ones."""

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
    return [f"reward {verdict.reward:.3f} · {'success' if verdict.success else 'no success'}"]
