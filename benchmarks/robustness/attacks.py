"""Hostile models, verifiers, run folders and processes cannot end a run, escape, or change another sample's verdict.

Each attack in ``attack_programs`` is a program that really attacks and then checks the system.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from rich.progress import Progress

from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.robustness import attack_programs
from benchmarks.robustness.attack_programs import Attack


def attacks() -> list[Attack]:
    """Return all attacks, ordered by module name."""
    names = sorted(path.stem for path in Path(attack_programs.__path__[0]).glob("*.py") if path.stem != "__init__")
    return [attack for name in names for attack in import_module(f"{attack_programs.__name__}.{name}").ATTACKS]


def failure_of(attack: Attack) -> str | None:
    """Return how the system failed, or None; an attack that raises counts as a failure."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, no_runs_trusted():
        try:
            return attack.run(Path(folder))
        except Exception as error:  # noqa: BLE001
            return f"{type(error).__name__}: {error}"


@contextmanager
def no_runs_trusted() -> Iterator[None]:
    """Use an empty list of trusted runs: the user's own list may be long, and an attack must not depend on it."""
    before = os.environ.get("XDG_STATE_HOME")
    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state
        try:
            yield
        finally:
            del os.environ["XDG_STATE_HOME"]
            os.environ.update({} if before is None else {"XDG_STATE_HOME": before})


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version runs only the attacks that take a few seconds."""
    chosen = [attack for attack in attacks() if attack.quick or not quick]
    task = progress.add_task("attacks", total=len(chosen))
    details: list[dict[str, Cell]] = []
    for attack in chosen:
        progress.update(task, description=f"{attack.target}: {attack.name}")
        failure = failure_of(attack)
        details.append({"target": attack.target, "attack": attack.name, "result": failure or "defended"})
        progress.advance(task)
    failed = sum(row["result"] != "defended" for row in details)
    figures = (Figure("successful attacks", failed, "<=", 0), Figure("attacks", len(details), ">=", 1))
    return Result("attacks", figures, details)
