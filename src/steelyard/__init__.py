"""Steelyard trains a model to make things that a program can check.

>>> import steelyard
>>> steelyard.train(model="my/model", tasks=["Say a prime number."], verifier=my_function)  # doctest: +SKIP

Importing the package is cheap: torch is loaded only when something is trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.errors import Invalid, SteelyardError
from steelyard.types import Group, Sample, Task, Verdict
from steelyard.verification import verifier

if TYPE_CHECKING:
    from steelyard.opened_run import Run

__all__ = ["Group", "Invalid", "Sample", "SteelyardError", "Task", "Verdict", "open_run", "train", "verifier"]


def train(
    model: Any = None,
    tasks: Any = None,
    verifier: Any = None,
    *,
    domain: Any = None,
    eval_tasks: Any = None,
    constraint: Any = None,
    recipe: str | Path | Mapping[str, Any] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    trust: bool = False,
    **sections: Mapping[str, Any],
) -> Run:
    """Train ``model`` on ``tasks`` against ``verifier`` and return the run.

    ``model``: a hub id or folder, the table of a small model (``{"scratch": {...}}``), or a ``CausalPolicy``.
    ``tasks``: strings, dicts or ``Task``s, a file, or a source; or a table with keys of [tasks] beside them, such as
    ``{"rows": [...], "template": "What is {a} plus {b}?"}`` and ``{"file": "tasks.jsonl", "system": "Be brief."}``.
    ``verifier``: a function ``f(task, text) -> float | bool | Verdict``, a TRL-style reward function, several with
    weights, or an import path. ``constraint``: what samples must look like, as a table
    (``{"kind": "regex", "source": "[0-9]+"}``) or an automaton.
    ``domain``: instead of tasks and verifier, a ``steelyard.domains.Domain``: an object, its class, a name, an import
    path (``"my_module:MyDomain"``) or a table (``{"name": "sequences", "options": {"symbols": 4}}``).
    ``recipe``: a recipe's name, a TOML file or a table; ``sections`` override it:
    ``train(..., sampling={"group_size": 8}, run={"steps": 50})``. ``trust``: execute what a recipe of somebody else's
    names (docs/security.md).

    If the run folder holds a run already, the new one gets the next free name (``evens-2``); ``resume`` continues the
    old one instead, ``overwrite`` replaces it.
    """
    from steelyard.tracking.bars import stages

    tracking = sections.get("tracking")
    silenced = isinstance(tracking, Mapping) and tracking.get("console") is False
    with stages("loading torch and transformers", shown=not silenced):
        from steelyard import api

    parts = _parts(model, domain, tasks, verifier, eval_tasks, constraint)
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
    trust: bool = False,
    **sections: Mapping[str, Any],
) -> Run:
    """A run that was trained before, in this process or another, to sample, evaluate or resume.

    ``model``, ``domain``, ``tasks``, ``verifier`` and the others are needed only where the run was started with objects
    that its folder cannot hold, such as a lambda; ``sections`` override its configuration:
    ``evaluate={"temperature": 0.7}``.
    """
    from steelyard import api

    parts = _parts(model, domain, tasks, verifier, eval_tasks, constraint)
    return api.open_run(folder, parts, sections, trust=trust)


def _parts(model: Any, domain: Any, tasks: Any, verifier: Any, eval_tasks: Any, constraint: Any) -> dict[str, Any]:
    return {
        "model": model,
        "domain": domain,
        "tasks": tasks,
        "eval_tasks": eval_tasks,
        "verifier": verifier,
        "constraint": constraint,
    }
