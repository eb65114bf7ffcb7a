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
    from steelyard.training.loop import Trainer

__all__ = ["Group", "Invalid", "Sample", "SteelyardError", "Task", "Verdict", "train", "verifier"]


def train(
    model: Any = None,
    tasks: Any = None,
    verifier: Any = None,
    *,
    eval_tasks: Any = None,
    constraint: Any = None,
    recipe: str | Path | Mapping[str, Any] | None = None,
    resume: bool = False,
    trust: bool = False,
    **sections: Mapping[str, Any],
) -> Trainer:
    """Train ``model`` on ``tasks`` against ``verifier`` and return the finished run.

    ``model``: a hub id or folder, the table of a small model (``{"scratch": {...}}``), or a ``CausalPolicy``.
    ``tasks``: strings, dicts or ``Task``s, a file, or a source.
    ``verifier``: a function ``f(task, text) -> float | bool | Verdict``, a TRL-style reward function, several with
    weights, or an import path. ``constraint``: what samples must look like, as a table
    (``{"kind": "regex", "source": "[0-9]+"}``) or an automaton.
    ``recipe``: a recipe's name, a TOML file or a table; ``sections`` override it:
    ``train(..., sampling={"group_size": 8}, run={"steps": 50})``. ``trust``: execute what a recipe of somebody else's
    names (docs/security.md).
    """
    from steelyard.tracking.bars import stages

    tracking = sections.get("tracking")
    silenced = isinstance(tracking, Mapping) and tracking.get("console") is False
    with stages("loading torch and transformers", shown=not silenced):
        from steelyard.run import train_from_python

    parts = {
        "model": model,
        "tasks": tasks,
        "eval_tasks": eval_tasks,
        "verifier": verifier,
        "constraint": constraint,
    }
    return train_from_python(parts, recipe, sections, resume=resume, trust=trust)
