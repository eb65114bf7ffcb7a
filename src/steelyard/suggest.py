"""Suggestions for unknown names ("did you mean ...?")."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest(name: str, choices: Iterable[str]) -> str | None:
    """Return the choice most similar to ``name``, ignoring case, or ``None`` if none is similar."""
    spelled = {choice.lower(): choice for choice in choices}
    matches = get_close_matches(name.lower(), spelled, n=1, cutoff=0.6)
    return spelled[matches[0]] if matches else None


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return a clause to append to a message, or an empty string if no choice is similar."""
    match = closest(name, choices)
    return f"; did you mean {match}?" if match else ""


def nearest_or_all(name: str, choices: Iterable[str]) -> str:
    """Suggest the most similar choice, or list all choices if none is similar."""
    listed = list(choices)
    match = closest(name, listed)
    return f"did you mean {match!r}?" if match else f"there are: {', '.join(listed)}"


def suggest_key(unknown: str, known: Iterable[str]) -> str:
    """Suggest a known dotted key: a sibling with a similar name, or the same name in another section."""
    known = sorted(known)
    parent, _, name = unknown.rpartition(".")
    siblings = {key.rpartition(".")[2]: key for key in known if key.rpartition(".")[0] == parent}
    if match := closest(name, siblings):
        return f"; did you mean {siblings[match]}?"
    elsewhere = [key for key in known if key.rpartition(".")[2] == name]
    if not elsewhere and (match := closest(name, {key.rpartition(".")[2] for key in known})):
        elsewhere = [key for key in known if key.rpartition(".")[2] == match]
    elsewhere.sort(key=lambda key: key.count("."))
    return f"; did you mean {' or '.join(elsewhere[:3])}?" if elsewhere else ""
