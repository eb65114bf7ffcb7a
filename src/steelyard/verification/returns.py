"""From what a user's function returned to a verdict; a return that makes no sense is never a silent 0."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, cast

from steelyard.errors import Invalid
from steelyard.text import bounded, one_line, shown
from steelyard.types import Verdict
from steelyard.verification.base import Cause

NO_CAUSE = "no cause given"
"""Of an unscored verdict of the verifier's own that does not say why, so that it is counted like the others."""


LONGEST_NAME = 100
"""Characters of a cause, a detail and a part's name that are kept; they become names of metrics."""


class BadReturn(Exception):  # noqa: N818 - becomes a verdict, is never shown as an error
    """A verifier returned something that is not one score an item."""


def verdict_of(raw: object, text: str, *, floor: float | None, success_at: float | None) -> Verdict:
    """The verdict that one returned value stands for.

    bool: reward 1 or 0 and success itself. A number r: reward r, success = r >= ``success_at``. None: unscored, "no
    score". An ``Invalid`` put into a list of scores: rejected with the floor. A Verdict: itself, if it is sound; with
    the floor if it is rejected and has none of its own.
    """
    if raw is None:
        return Verdict.unscored(Cause.NO_SCORE, "the verifier returned None (a return statement forgotten?)")
    if isinstance(raw, Invalid):
        return Verdict.rejected(bounded(str(raw)), floor=floor)
    if isinstance(raw, Verdict):
        return sound(raw, text, floor)
    value = as_number(raw)
    if isinstance(value, bool):
        return Verdict.scored(float(value), success=value)
    if value is None:
        return Verdict.unscored(Cause.BAD_RETURN, f"expected a number, a bool or a Verdict, got {_shown(raw)}")
    if not math.isfinite(value):
        return Verdict.unscored(Cause.BAD_RETURN, f"the reward is {value}")
    return Verdict.scored(value, success=success_at is not None and value >= success_at)


def sound(verdict: Verdict, text: str, floor: float | None) -> Verdict:
    """The verdict itself, all of it plain data, or an unscored one that says what is wrong with it."""
    words = {"reason": bounded(str(verdict.reason)), "cause": name(verdict.cause), "detail": name(verdict.detail)}
    if verdict.status == "unscored":
        cause = words["cause"] or NO_CAUSE
        return Verdict.unscored(cause, words["reason"], detail=words["detail"], tries=verdict.tries)
    if verdict.open_floor:
        verdict = verdict.with_floor(floor)
    try:
        return replace(
            verdict,
            **words,
            success=bool(verdict.success),
            reward=_finite(verdict.reward, "reward"),
            parts={name(part): _finite(value, f"part {shown(part, 100)}") for part, value in verdict.parts.items()},
            steps=_rising(verdict.steps, len(text)),
        )
    except BadReturn as fault:
        return Verdict.unscored(Cause.BAD_RETURN, str(fault))


def read_verdict(data: object, text: str) -> Verdict:
    """The verdict that JSON from a worker or a file stands for; raises :class:`BadReturn` unless every value of it is
    one that :func:`sound` lets through.
    """
    try:
        verdict = Verdict.from_json(cast("Mapping[str, Any]", data))
        types = {type(word) for word in (verdict.reason, verdict.cause, verdict.detail)}
        if types != {str} or {type(verdict.success), type(verdict.open_floor)} != {bool}:
            raise TypeError("a text or a truth value is something else")
        if type(verdict.tries) is not int or verdict.tries < 1:
            raise ValueError(f"tries = {_shown(verdict.tries)}")
        return replace(
            verdict,
            reason=bounded(verdict.reason),
            cause=name(verdict.cause),
            detail=name(verdict.detail),
            reward=_finite(verdict.reward, "reward"),
            parts={name(part): _finite(value, f"part {shown(part, 100)}") for part, value in verdict.parts.items()},
            steps=_rising(verdict.steps, len(text)),
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise BadReturn(f"this is not a verdict ({type(error).__name__}: {error})") from None


def name(raw: object) -> str:
    """A short printable name, whatever the verifier gave."""
    return one_line(bounded(str(raw), LONGEST_NAME))


def as_number(raw: object) -> float | bool | None:
    """A bool or float for Python, numpy and tensor scalars; ``None`` for anything else."""
    if not isinstance(raw, bool | int | float) and getattr(raw, "ndim", None) == 0 and hasattr(raw, "item"):
        raw = cast("Any", raw).item()
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, int | float):
        return float(raw)
    return None


def as_scores(raw: object, count: int) -> list[object]:
    """The returned values, one an item; raises :class:`BadReturn` where there is no such reading."""
    unordered = isinstance(raw, Mapping | AbstractSet)
    iterable = isinstance(raw, Iterable) and not unordered and not isinstance(raw, str | bytes)
    if not iterable or getattr(cast("object", raw), "ndim", 1) != 1:
        raise BadReturn(f"expected a list of {count} scores, got {_shown(cast('object', raw))}")
    scores = list(itertools.islice(cast("Iterable[object]", raw), count + 1))  # a generator may never end
    if len(scores) != count:
        raise BadReturn(f"expected {count} scores, one an item, got {len(scores) if len(scores) < count else 'more'}")
    return scores


def _finite(raw: object, what: str) -> float:
    value = as_number(raw)
    if value is None or not math.isfinite(value):
        raise BadReturn(f"the verdict's {what} is {_shown(raw)}")
    return float(value)


def _rising(steps: Sequence[tuple[int, float]], length: int) -> tuple[tuple[int, float], ...]:
    try:
        plain = tuple((operator.index(end), _finite(reward, f"step reward at {end}")) for end, reward in steps)
    except (TypeError, ValueError) as error:
        raise BadReturn(f"steps are pairs (end offset, reward), got {_shown(steps)}: {error}") from None
    ends = [-1, *(end for end, _ in plain)]
    if ends[-1] > length or any(after <= before for before, after in itertools.pairwise(ends)):
        raise BadReturn(f"step offsets must rise and lie within the text's {length} characters, got {ends[1:]}")
    return plain


def _shown(raw: object) -> str:
    return f"{type(raw).__name__} {shown(raw)}"
