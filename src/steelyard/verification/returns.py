"""Convert the return values of user functions into verdicts. An invalid return value never becomes a reward of 0."""

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
from steelyard.types import Message, Reply, Verdict
from steelyard.verification.base import Cause

NO_CAUSE = "no cause given"
"""Cause of an unscored verdict for which the verifier names no cause, so that it is counted like any other."""

MAX_NAME_CHARACTERS = 100
"""Maximum length of causes, details and names of reward parts. Causes and names become metric names."""


MAX_REPLY_CHARACTERS = 1_000_000
"""Maximum number of characters in one message of a reply."""
REPLY_ROLES = ("user", "tool", "system")
"""Roles of a reply; only the policy is the assistant."""


class BadReturn(Exception):  # noqa: N818 - becomes a verdict, is never shown as an error
    """A verifier did not return one score per item."""


def verdict_of(raw: object, text: str, *, floor: float | None, success_at: float | None) -> Verdict:
    """Convert one return value into a verdict.

    - A bool gives reward 1 or 0 and also sets ``success``.
    - A number r gives reward r, with success if r >= ``success_at``.
    - None is unscored with the cause "no score".
    - An ``Invalid`` in a list of scores is rejected with the floor.
    - A Verdict is checked. A rejected one without a floor gets ``floor``.
    """
    if raw is None:
        return Verdict.unscored(Cause.NO_SCORE, "the verifier returned None (missing return statement?)")
    if isinstance(raw, Invalid):
        return Verdict.rejected(bounded(str(raw)), floor=floor)
    if isinstance(raw, Verdict):
        return checked_verdict(raw, text, floor)
    value = as_number(raw)
    if isinstance(value, bool):
        return Verdict.scored(float(value), success=value)
    if value is None:
        return Verdict.unscored(Cause.BAD_RETURN, f"expected a number, a bool or a Verdict, got {_shown(raw)}")
    if not math.isfinite(value):
        return Verdict.unscored(Cause.BAD_RETURN, f"the reward is {value}")
    return Verdict.scored(value, success=success_at is not None and value >= success_at)


def checked_verdict(verdict: Verdict, text: str, floor: float | None) -> Verdict:
    """Convert the fields of a verdict to plain data, or return an unscored verdict that names the invalid field."""
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
            steps=_checked_steps(verdict.steps, len(text)),
            turn_rewards=_checked_rewards(verdict.turn_rewards),
            reply=_checked_continuation(verdict),
        )
    except BadReturn as fault:
        return Verdict.unscored(Cause.BAD_RETURN, str(fault))


def read_verdict(data: object, text: str) -> Verdict:
    """Read a verdict from JSON. Raises :class:`BadReturn` unless every field is valid as in :func:`checked_verdict`."""
    try:
        verdict = Verdict.from_json(cast("Mapping[str, Any]", data))
        types = {type(word) for word in (verdict.reason, verdict.cause, verdict.detail)}
        if types != {str} or {type(verdict.success), type(verdict.open_floor)} != {bool}:
            raise TypeError("a string or boolean field of the verdict has the wrong type")
        if type(verdict.tries) is not int or verdict.tries < 1:
            raise ValueError(f"tries = {_shown(verdict.tries)}")
        return replace(
            verdict,
            reason=bounded(verdict.reason),
            cause=name(verdict.cause),
            detail=name(verdict.detail),
            reward=_finite(verdict.reward, "reward"),
            parts={name(part): _finite(value, f"part {shown(part, 100)}") for part, value in verdict.parts.items()},
            steps=_checked_steps(verdict.steps, len(text)),
            turn_rewards=_checked_rewards(verdict.turn_rewards),
            reply=_checked_continuation(verdict),
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise BadReturn(f"invalid verdict ({type(error).__name__}: {error})") from None


def checked_reply(raw: object) -> Reply:
    """Convert a reply, a text or chat messages to a plain reply. Raises :class:`BadReturn` for anything else."""
    if isinstance(raw, str):
        raw = Reply.text(raw)
    reply = raw if isinstance(raw, Reply) else Reply(tuple(cast("Sequence[Message]", raw)))
    if not reply.messages:
        raise BadReturn("a reply has no messages; reply with an empty text, or end the episode with a verdict")
    reward = None if reply.reward is None else _finite(reply.reward, "reply reward")
    return Reply(tuple(_checked_message(message) for message in reply.messages), reward, dict(reply.spec))


def _checked_continuation(verdict: Verdict) -> Reply | None:
    """Return the reply of a verdict, which must have one if and only if the episode continues."""
    if (verdict.status == "continues") != (verdict.reply is not None):
        raise BadReturn(f"a verdict with the status {verdict.status!r} and the reply {shown(verdict.reply, 100)}")
    return None if verdict.reply is None else checked_reply(verdict.reply)


def _checked_message(raw: object) -> Message:
    message = cast("Mapping[str, Any]", raw)
    if not isinstance(raw, Mapping) or not {"role", "content"} <= set(message):
        raise BadReturn(f"a reply consists of messages with role and content, got {_shown(cast('object', raw))}")
    role, content = str(message["role"]), str(message["content"])
    if role not in REPLY_ROLES:
        raise BadReturn(f"the role of a reply must be one of {', '.join(REPLY_ROLES)}, got {shown(role, 100)}")
    if len(content) > MAX_REPLY_CHARACTERS:
        raise BadReturn(f"a reply has {len(content)} characters; at most {MAX_REPLY_CHARACTERS} are accepted")
    return {"role": role, "content": content.encode("utf-8", "replace").decode("utf-8")}


def _checked_rewards(rewards: Iterable[object]) -> tuple[float, ...]:
    return tuple(_finite(reward, "turn reward") for reward in rewards)


def name(raw: object) -> str:
    """Convert any value to a short printable name."""
    return one_line(bounded(str(raw), MAX_NAME_CHARACTERS))


def as_number(raw: object) -> float | bool | None:
    """Convert a Python, numpy or tensor scalar to a bool or float; return ``None`` for anything else."""
    if not isinstance(raw, bool | int | float) and getattr(raw, "ndim", None) == 0 and hasattr(raw, "item"):
        raw = cast("Any", raw).item()
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, int | float):
        return float(raw)
    return None


def as_scores(raw: object, count: int) -> list[object]:
    """Return the values as a list with one entry per item. Raises :class:`BadReturn` if that is impossible."""
    unordered = isinstance(raw, Mapping | AbstractSet)
    iterable = isinstance(raw, Iterable) and not unordered and not isinstance(raw, str | bytes)
    if not iterable or getattr(cast("object", raw), "ndim", 1) != 1:
        raise BadReturn(f"expected a list of {count} scores, got {_shown(cast('object', raw))}")
    scores = list(itertools.islice(cast("Iterable[object]", raw), count + 1))  # a generator may never end
    if len(scores) != count:
        raise BadReturn(f"expected {count} scores, one per item, got {len(scores) if len(scores) < count else 'more'}")
    return scores


def _finite(raw: object, what: str) -> float:
    value = as_number(raw)
    if value is None or not math.isfinite(value):
        raise BadReturn(f"the {what} of the verdict is {_shown(raw)}")
    return float(value)


def _checked_steps(steps: Sequence[tuple[int, float]], length: int) -> tuple[tuple[int, float], ...]:
    try:
        plain = tuple((operator.index(end), _finite(reward, f"step reward at {end}")) for end, reward in steps)
    except (TypeError, ValueError) as error:
        raise BadReturn(f"steps must be pairs (end offset, reward), got {_shown(steps)}: {error}") from None
    ends = [-1, *(end for end, _ in plain)]
    if ends[-1] > length or any(after <= before for before, after in itertools.pairwise(ends)):
        raise BadReturn(f"step offsets must increase and be at most the text length ({length}), got {ends[1:]}")
    return plain


def _shown(raw: object) -> str:
    return f"{type(raw).__name__} {shown(raw)}"
