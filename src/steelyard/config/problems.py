"""Configuration problems, worded so that the user can fix them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from steelyard.config.removed import REMOVED_KEYS, REMOVED_VALUES
from steelyard.errors import ConfigError
from steelyard.suggest import did_you_mean, suggest_key
from steelyard.text import shown

_REASONS = {
    "bool_type": "must be true or false",
    "dict_type": "must be a table",
    "finite_number": "must be finite",
    "float_type": "must be a number",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_type": "must be an integer",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "missing": "is required",
    "model_type": "must be a table",
    "string_too_short": "must not be empty",
    "string_type": "must be text",
    "too_long": "must have at most {max_length} entries",
    "too_short": "must have at least {min_length} entry",
    "tuple_type": "must be a list",
    "value_error": "{error}",
}
_WHY = {
    "loss.dual_clip": " (3 is usual): at 1 or below it would clip samples whose ratio has not risen",
    "sampling.group_size": ": a sample is credited relative to its group, and a group of one has nothing to compare",
    "sampling.temperature": ": greedy decoding makes every sample of a group the same",
}
"""Why a number is too small, for keys whose range is not self-explanatory."""


class Problem(NamedTuple):
    """One problem: the dotted key, its value (``None`` if not given) and the reason."""

    key: str
    value: Any
    reason: str

    def __str__(self) -> str:
        given = "" if self.value is None else f" = {shown(self.value)}"
        return f"{self.key}{given}: {self.reason}"


def config_error(source: str, problems: Sequence[Problem]) -> ConfigError:
    """Combine all problems into one error."""
    if len(problems) == 1:
        return ConfigError(f"{source}: {problems[0]}")
    lines = "".join(f"\n  {problem}" for problem in problems)
    return ConfigError(f"{source}: {len(problems)} problems{lines}")


def problems_of(error: ValidationError, known: Collection[str]) -> list[Problem]:
    """Translate pydantic errors into problems, one per key, with suggestions from the ``known`` dotted keys."""
    found: dict[str, Problem] = {}
    for details in error.errors(include_url=False):
        problem = _problem(details, known)
        if before := found.get(problem.key):  # a key that accepts several types fails once per type
            problem = before._replace(reason=f"{before.reason} or {problem.reason.removeprefix('must be ')}")
        found[problem.key] = problem
    return list(found.values())


def _problem(details: ErrorDetails, known: Collection[str]) -> Problem:
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    path = [str(part) for part in details["loc"]]
    if kind == "extra_forbidden":
        key = ".".join(path)
        answer = REMOVED_KEYS.get(".".join(_without_indices(path)))
        return Problem(key, value, answer or "unknown key" + suggest_key(key, known))
    key = _without_type_names(path, known)
    if kind == "missing":
        return Problem(key, None, _REASONS[kind])
    if kind == "literal_error" and (key, value) in REMOVED_VALUES:
        return Problem(key, value, REMOVED_VALUES[key, value])
    if kind == "literal_error":
        choices = context["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        return Problem(key, value, f"must be one of {', '.join(choices)}{hint}")
    why = _WHY.get(key, "") if kind.startswith("greater") else ""
    return Problem(key, value, _REASONS.get(kind, details["msg"]).format(**context) + why)


def _without_type_names(path: list[str], known: Collection[str]) -> str:
    """Return the dotted key of an error. For a key that accepts several types, pydantic appends the type it tried."""
    while path and not path[-1].isdigit() and ".".join(_without_indices(path)) not in known:
        path = path[:-1]
    return ".".join(path)


def _without_indices(path: Sequence[str]) -> list[str]:
    return [part for part in path if not part.isdigit()]
