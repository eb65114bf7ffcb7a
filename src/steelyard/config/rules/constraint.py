"""Rules on the constraint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from steelyard.config.problems import Problem
from steelyard.import_paths import is_import_path

if TYPE_CHECKING:
    from steelyard.config.constraint import ConstraintConfig
    from steelyard.config.sections import Sections as Config

FORMS = {"json_schema": (dict, "a table"), "choices": (tuple, "a list of texts")}
"""What the source of a kind is, if it is not a text."""


def source(config: Config) -> Iterator[Problem]:
    constraint = config.constraint
    if constraint is None:
        return
    if "constraint" in config.run.supplied:
        yield Problem("constraint", None, "a constraint was also handed over from Python; keep one")
    given = [name for name in ("source", "file", "column") if getattr(constraint, name) is not None]
    if len(given) != 1:
        reason = f"needs exactly one of source, file and column; it has {' and '.join(given) or 'none'}"
        yield Problem("constraint", None, reason)
    if constraint.source is not None:
        yield from _form(constraint)


def options(config: Config) -> Iterator[Problem]:
    constraint = config.constraint
    if constraint is None:
        return
    if constraint.kind == "automaton":
        if constraint.canonical_runs is not None:
            reason = "an automaton says itself which tokens may come; only text grammars have runs to write in one way"
            yield Problem("constraint.canonical_runs", constraint.canonical_runs, reason)
        for name in ("file", "column"):
            if getattr(constraint, name) is not None:
                reason = "an automaton is a class: name it in constraint.source as module:Class"
                yield Problem(f"constraint.{name}", getattr(constraint, name), reason)
        return
    for name in ("options", "over"):
        if getattr(constraint, name):
            reason = f"belongs to kind = 'automaton', but kind is '{constraint.kind}'"
            yield Problem(f"constraint.{name}", getattr(constraint, name), reason)


def _form(constraint: ConstraintConfig) -> Iterator[Problem]:
    kind, given = constraint.kind, constraint.source
    form, name = FORMS.get(kind, (str, "a text"))
    if not isinstance(given, form):
        yield Problem("constraint.source", given, f"for kind = '{kind}' it must be {name}")
    elif kind == "automaton" and isinstance(given, str) and not is_import_path(given):
        yield Problem("constraint.source", given, "must be the automaton's class as module:Class")
