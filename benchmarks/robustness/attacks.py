"""Nothing that a model, a verifier, a run folder or a second process does ends a run, escapes, or changes a verdict.

Each attack in ``attack_programs`` is a program that does the harm for real and then checks the system.
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
    """All attacks, in the order of their modules' names."""
    names = sorted(path.stem for path in Path(attack_programs.__path__[0]).glob("*.py") if path.stem != "__init__")
    return [attack for name in names for attack in import_module(f"{attack_programs.__name__}.{name}").ATTACKS]


def held(attack: Attack) -> str | None:
    """None, or how the system failed; an attack that raises has not been held."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, no_runs_trusted():
        try:
            return attack.run(Path(folder))
        except Exception as error:  # noqa: BLE001
            return f"{type(error).__name__}: {error}"


@contextmanager
def no_runs_trusted() -> Iterator[None]:
    """A list of trusted runs of its own: that of the user may be long, and an attack must not depend on it."""
    before = os.environ.get("XDG_STATE_HOME")
    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state
        try:
            yield
        finally:
            del os.environ["XDG_STATE_HOME"]
            os.environ.update({} if before is None else {"XDG_STATE_HOME": before})


def measure(quick: bool, progress: Progress) -> Result:
    """Quick: only the attacks that take a few seconds."""
    chosen = [attack for attack in attacks() if attack.quick or not quick]
    task = progress.add_task("attacks", total=len(chosen))
    details: list[dict[str, Cell]] = []
    for attack in chosen:
        progress.update(task, description=f"{attack.target}: {attack.name}")
        failure = held(attack)
        details.append({"target": attack.target, "attack": attack.name, "result": failure or "held"})
        progress.advance(task)
    failed = sum(row["result"] != "held" for row in details)
    figures = (Figure("attacks not held", failed, "<=", 0), Figure("attacks", len(details), ">=", 1))
    return Result("attacks", figures, details)
