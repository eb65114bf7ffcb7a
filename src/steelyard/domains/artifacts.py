"""Artifacts of a domain as plain data: what is rendered, highlighted, reported on and summarised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from steelyard.types import Verdict

ColourBy = Literal["part", "stress"]
"""What colours stand for: the kind of each part, or how close it is to failure."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """What a policy produced, as a file holds it (``Domain.to_text``)."""

    text: str
    title: str = ""
    spec: Mapping[str, Any] | None = None
    """What it was made for, as in ``Task.spec``."""
    verdict: Verdict | None = None
    """``None`` for the text of a file."""


class TextSpan(NamedTuple):
    """A part of a text with its highlight."""

    text: str
    kind: Literal["plain", "given", "right", "made"] = "plain"
    """Part of the task; the policy's own text where it equals the original; where it does not; or no highlight."""


class Row(NamedTuple):
    """One row of a table; a row that is not ``good`` is marked."""

    cells: tuple[str, ...]
    good: bool


@dataclass(frozen=True, slots=True)
class Report:
    """The result of verifying one artifact, part by part, for people to read."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    flaws: tuple[str, ...]
    """What could not be read or placed, each with its line."""
    summary: tuple[str, ...]
    """A few lines; the first states the result."""
    good: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """Many artifacts together: how many are different, which are new."""

    lines: tuple[str, ...]
    """The first states the result."""
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    page: str
    """The same in full, as HTML."""


def verdict_lines(verdict: Verdict) -> list[str]:
    """A verdict under a picture: the reward and whether it succeeds, or what went wrong."""
    if verdict.status == "unscored":
        return [f"unscored ({verdict.cause})"]
    if verdict.status == "rejected":
        return [f"reward {verdict.reward:.3f} · rejected", verdict.reason]
    return [f"reward {verdict.reward:.3f} · {'success' if verdict.success else 'no success'}"]
