"""Steelyard trains a model to produce artifacts that a program can check.

>>> import steelyard
>>> steelyard.train(model="my/model", tasks=["Say a prime number."], verifier=my_function)  # doctest: +SKIP

Importing the package is cheap: torch is imported only when a run is trained or opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.environments import Environment, Session, SessionEnvironment
from steelyard.errors import Invalid, SteelyardError
from steelyard.types import Group, Reply, Sample, Task, Verdict
from steelyard.verification import verifier

if TYPE_CHECKING:
    from steelyard.opened_run import Run

__all__ = [
    "Environment",
    "Group",
    "Invalid",
    "Reply",
    "Sample",
    "Session",
    "SessionEnvironment",
    "SteelyardError",
    "Task",
    "Verdict",
    "open_run",
    "train",
    "verifier",
]


def train(
    model: Any = None,
    tasks: Any = None,
    verifier: Any = None,
    *,
    domain: Any = None,
    eval_tasks: Any = None,
    constraint: Any = None,
    tools: Any = None,
    recipe: str | Path | Mapping[str, Any] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    trust: bool = False,
    **sections: Mapping[str, Any],
) -> Run:
    """Train ``model`` on ``tasks`` against ``verifier`` and return the run.

    ``model``: a hub id or folder, the configuration of a small model (``{"scratch": {...}}``), or a ``CausalPolicy``.
    ``tasks``: strings, dicts or ``Task`` objects, a file, or a source. To set other keys of [tasks], pass a table, such
    as ``{"rows": [...], "template": "What is {a} plus {b}?"}`` or ``{"file": "tasks.jsonl", "system": "Be brief."}``.
    ``verifier``: a function ``f(task, text) -> float | bool | Verdict``, a TRL-style reward function, several of them
    with weights, an ``Environment`` for episodes of several turns, or an import path. ``constraint``: the form that
    every sample must follow, as a table (``{"kind": "regex", "source": "[0-9]+"}``) or an automaton. ``tools``: typed
    functions that the model can call before its final answer, names (``"calculator"``, ``"python"``) or import paths
    (docs/tools.md). ``domain``: replaces ``tasks`` and ``verifier``. A ``steelyard.domains.Domain`` object or class, a
    name, an import path (``"my_module:MyDomain"``) or a table (``{"name": "sequences", "options": {"symbols": 4}}``).
    ``recipe``: the name of a recipe, a TOML file or a table. ``sections`` override it: ``train(...,
    sampling={"group_size": 8})``. ``trust``: allow code named by someone else's recipe to be executed
    (docs/security.md).

    If the run folder already holds a run, the new run gets the next free name (``evens-2``). ``resume`` continues the
    existing run instead; ``overwrite`` replaces it.
    """
    from steelyard.tracking.bars import stages

    tracking = sections.get("tracking")
    silenced = isinstance(tracking, Mapping) and tracking.get("console") is False
    with stages("loading torch and transformers", shown=not silenced):
        from steelyard import api

    parts = _parts(model, domain, tasks, verifier, eval_tasks, constraint, tools)
    return api.train(parts, recipe, sections, resume=resume, overwrite=overwrite, trust=trust)


def open_run(
    folder: str | Path,
    *,
    model: Any = None,
    domain: Any = None,
    tasks: Any = None,
    verifier: Any = None,
    eval_tasks: Any = None,
    constraint: Any = None,
    tools: Any = None,
    trust: bool = False,
    **sections: Mapping[str, Any],
) -> Run:
    """Open an existing run to sample from it, evaluate it or resume it.

    Pass ``model``, ``domain``, ``tasks``, ``verifier``, ``eval_tasks``, ``constraint`` or ``tools`` only if the run was
    started with an object that its folder cannot store, such as a lambda. ``sections`` override the run's
    configuration: ``evaluate={"temperature": 0.7}``.
    """
    from steelyard import api

    parts = _parts(model, domain, tasks, verifier, eval_tasks, constraint, tools)
    return api.open_run(folder, parts, sections, trust=trust)


def _parts(
    model: Any, domain: Any, tasks: Any, verifier: Any, eval_tasks: Any, constraint: Any, tools: Any
) -> dict[str, Any]:
    return {
        "model": model,
        "domain": domain,
        "tasks": tasks,
        "eval_tasks": eval_tasks,
        "verifier": verifier,
        "constraint": constraint,
        "tools": tools,
    }
