"""Task sources: a list, a function that generates tasks, and mixtures of sources.

Every random choice depends only on (seed, counter), so the state is a few integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.data.base import Source
from steelyard.data.files import load_tasks
from steelyard.data.tasks import as_tasks, checksum
from steelyard.domains.base import Domain, Split
from steelyard.errors import DataError
from steelyard.types import GroupSummary, Task

CHECKED_TASKS = 16
"""Number of generated tasks compared on resume."""
TASKS_CHANGED = (
    "the tasks changed since the checkpoint: {difference}. "
    "Resume with the same tasks, or start a new run from the checkpoint's model"
)


class ListSource:
    """Repeats a list of tasks; each epoch is a permutation that depends on (seed, epoch)."""

    def __init__(self, tasks: Iterable[Task], *, seed: int = 0, shuffle: bool = True) -> None:
        self.tasks = list(tasks)
        if not self.tasks:
            raise DataError("the list of tasks is empty; a run needs at least one task")
        self.seed = seed
        self.shuffle = shuffle
        self.epoch = 0
        self.cursor = 0
        self._order = self._order_of(0)
        self._checksum = checksum(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)

    def draw(self, step: int, n: int) -> list[Task]:
        drawn: list[Task] = []
        while len(drawn) < n:
            if self.cursor == len(self.tasks):
                self._move_to(self.epoch + 1, 0)
            taken = self._order[self.cursor : self.cursor + n - len(drawn)]
            drawn.extend(self.tasks[index] for index in taken)
            self.cursor += len(taken)
        return drawn

    def observe(self, groups: Sequence[GroupSummary]) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "cursor": self.cursor, "tasks": len(self.tasks), "checksum": self._checksum}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if (state["tasks"], state.get("checksum")) != (len(self.tasks), self._checksum):
            counts = f"the checkpoint has {state['tasks']} tasks and the run {len(self.tasks)}"
            raise DataError(TASKS_CHANGED.format(difference=f"{counts}, or ids, prompts or specs differ"))
        self._move_to(int(state["epoch"]), int(state["cursor"]))

    def _move_to(self, epoch: int, cursor: int) -> None:
        if epoch != self.epoch:
            self._order = self._order_of(epoch)
        self.epoch, self.cursor = epoch, cursor

    def _order_of(self, epoch: int) -> np.ndarray:
        if not self.shuffle:
            return np.arange(len(self.tasks))
        return np.random.default_rng([self.seed, epoch]).permutation(len(self.tasks))


class GeneratedSource:
    """Generates tasks with a function of an index: ``make(0)``, ``make(1)``, …

    On resume, the first ``CHECKED_TASKS`` tasks are compared to detect a different function.
    """

    def __init__(self, make: Callable[[int], Task]) -> None:
        self.make = make
        self.index = 0

    def draw(self, step: int, n: int) -> list[Task]:
        drawn = [self.make(index) for index in range(self.index, self.index + n)]
        self.index += n
        return drawn

    def observe(self, groups: Sequence[GroupSummary]) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {"index": self.index, "checksum": self._checksum}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state.get("checksum") != self._checksum:
            raise DataError(TASKS_CHANGED.format(difference=f"the first {CHECKED_TASKS} generated tasks differ"))
        self.index = int(state["index"])

    @cached_property
    def _checksum(self) -> int:
        return checksum(self.make(index) for index in range(CHECKED_TASKS))


class MixtureSource:
    """Draws each task from one of several named sources with probability proportional to its weight.

    The choice depends only on (seed, counter). Task ids are prefixed with the name of the source ("name/id"), so that
    results are passed back to the right source.
    """

    def __init__(self, sources: Mapping[str, Source], weights: Mapping[str, float], *, seed: int = 0) -> None:
        if set(sources) != set(weights) or not sources:
            raise DataError(
                f"a mixture needs one weight per source, got sources {sorted(sources)} and weights {sorted(weights)}"
            )
        if not all(weight >= 0 and np.isfinite(weight) for weight in weights.values()) or not sum(weights.values()):
            raise DataError(f"mixture weights must be non-negative and not all zero, got {dict(weights)}")
        slashed = [name for name in sources if "/" in name]
        if slashed:
            raise DataError(
                f"the source name {slashed[0]!r} must not contain '/', which separates source names from task ids"
            )
        self.sources = dict(sources)
        self.seed = seed
        self.counter = 0
        total = np.cumsum([weights[name] for name in self.sources])
        self._edges = total / total[-1]  # the last edge is exactly 1, above every uniform draw

    @property
    def tasks(self) -> list[Task]:
        """Tasks of all sources that have a list of tasks."""
        return [_renamed(task, name) for name, source in self.sources.items() for task in getattr(source, "tasks", ())]

    def draw(self, step: int, n: int) -> list[Task]:
        names = [self._choice(counter) for counter in range(self.counter, self.counter + n)]
        self.counter += n
        drawn = {name: iter(source.draw(step, names.count(name))) for name, source in self.sources.items()}
        return [_renamed(next(drawn[name]), name) for name in names]

    def observe(self, groups: Sequence[GroupSummary]) -> None:
        for name, source in self.sources.items():
            own = [group for group in groups if group.task.id.startswith(f"{name}/")]
            if own:
                source.observe([_with_own_id(group, name) for group in own])

    def state_dict(self) -> dict[str, Any]:
        return {
            "counter": self.counter,
            "sources": {name: source.state_dict() for name, source in self.sources.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if set(state["sources"]) != set(self.sources):
            raise DataError(
                f"the checkpoint has the task sources {sorted(state['sources'])}, but this run has "
                f"{sorted(self.sources)}; resume with the same sources"
            )
        self.counter = int(state["counter"])
        for name, source in self.sources.items():
            source.load_state_dict(state["sources"][name])

    def _choice(self, counter: int) -> str:
        uniform = np.random.default_rng([self.seed, counter]).random()
        return list(self.sources)[int(np.searchsorted(self._edges, uniform, side="right"))]


def _renamed(task: Task, name: str) -> Task:
    return replace(task, id=f"{name}/{task.id}")


def _with_own_id(group: GroupSummary, name: str) -> GroupSummary:
    return replace(group, task=replace(group.task, id=group.task.id.removeprefix(f"{name}/")))


def domain_tasks(domain: Domain, split: Split, count: int | None = None) -> list[Task]:
    """Return the first ``count`` tasks of a domain's split; without ``count``, all tasks of a finite split."""
    size = domain.size(split)
    limits = [limit for limit in (count, size) if limit is not None]
    if not limits:
        raise DataError(f"the domain {domain.name} has infinitely many {split} tasks; set a limit")
    return [domain.task(split, index) for index in range(min(limits))]


def domain_source(domain: Domain, split: Split = "train", *, seed: int = 0) -> Source:
    """Return a domain's split as a source: shuffled epochs of a finite split, otherwise tasks in order."""
    if domain.size(split) is None:
        return GeneratedSource(lambda index: domain.task(split, index))
    return ListSource(domain_tasks(domain, split), seed=seed)


def as_source(tasks: object, *, seed: int = 0, shuffle: bool = True) -> Source:
    """Convert a file name, hub dataset name or iterable of tasks to a source; a source is returned unchanged."""
    if isinstance(tasks, Source):
        return tasks
    if isinstance(tasks, str | Path):
        return ListSource(load_tasks(tasks), seed=seed, shuffle=shuffle)
    return ListSource(as_tasks(tasks), seed=seed, shuffle=shuffle)
