"""Rules for the constraint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from steelyard.config.problems import Problem
from steelyard.import_paths import is_import_path

if TYPE_CHECKING:
    from steelyard.config.constraint import ConstraintConfig
    from steelyard.config.sections import Sections

FORMS = {"json_schema": (dict, "a table"), "choices": (tuple, "a list of strings")}
"""Type of ``constraint.source`` for the kinds that do not take a string."""


def source(config: Sections) -> Iterator[Problem]:
    constraint = config.constraint
    if constraint is None:
        return
    if "constraint" in config.run.supplied:
        yield Problem("constraint", None, "a constraint was also passed from Python; remove one of them")
    given = [name for name in ("source", "file", "column") if getattr(constraint, name) is not None]
    if constraint.kind == "tools" and not (config.episode.tools or "tools" in config.run.supplied):
        yield Problem("constraint.kind", constraint.kind, "there are no tools to call; set episode.tools")
    if len(given) > 1 or not (given or constraint.kind == "tools"):
        reason = f"needs exactly one of source, file and column; it has {' and '.join(given) or 'none'}"
        yield Problem("constraint", None, reason)
    if constraint.source is not None:
        yield from _form(constraint)


def options(config: Sections) -> Iterator[Problem]:
    constraint = config.constraint
    if constraint is None:
        return
    if constraint.kind == "automaton":
        if constraint.canonical_tokens is not None:
            reason = "applies only to text grammars, because an automaton allows tokens itself; remove it"
            yield Problem("constraint.canonical_tokens", constraint.canonical_tokens, reason)
        for name in ("file", "column"):
            if getattr(constraint, name) is not None:
                reason = "an automaton is a class; name it in constraint.source as module:Class"
                yield Problem(f"constraint.{name}", getattr(constraint, name), reason)
        return
    for name in ("options", "symbols"):
        if getattr(constraint, name):
            reason = f"applies only to kind = 'automaton', but kind is '{constraint.kind}'; remove it"
            yield Problem(f"constraint.{name}", getattr(constraint, name), reason)


def _form(constraint: ConstraintConfig) -> Iterator[Problem]:
    kind, given = constraint.kind, constraint.source
    form, name = FORMS.get(kind, (str, "a string"))
    if not isinstance(given, form):
        yield Problem("constraint.source", given, f"must be {name} for kind = '{kind}'")
    elif kind == "automaton" and isinstance(given, str) and not is_import_path(given):
        yield Problem("constraint.source", given, "must be the automaton's class as module:Class")
