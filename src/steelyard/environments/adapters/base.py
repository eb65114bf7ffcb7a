"""Shared by the adapters: early package imports in workers, tasks defined by a seed, and private random states."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import numpy as np

from steelyard.environments.base import SessionEnvironment
from steelyard.environments.running import NotReproducibleError
from steelyard.errors import DataError, MissingExtraError
from steelyard.types import Prompt, Task

SEED = "seed"
"""Key in a task's spec that holds the seed from which the environment starts."""


class AdaptedEnvironment(SessionEnvironment):
    """An environment from another package. Workers import the package before their first episode."""

    def load_package(self) -> Any:
        """Import and return the package that the environment needs."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.load_package()  # now, so that the import does not count towards the time limit of a reply


@contextmanager
def optional(feature: str, extra: str) -> Iterator[None]:
    """Raise an error that names the extra if the package imported inside the ``with`` block is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(feature, extra) from error


class SeededEnvironment(AdaptedEnvironment):
    """An environment without a dataset: each task is defined by a seed.

    The task's seed determines how an episode starts, so all samples of a task start the same way. Later random choices
    derive from the sample's seed.
    """

    instructions: str = ""
    """Prompt of every task; the initial observation is appended to it."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Name of the environment in the ids of its tasks."""

    def tasks(self, count: int, *, first: int = 0) -> list[Task]:
        """Return tasks with the seeds ``first``, ``first + 1``, …"""
        return [Task(f"{self.title}-{seed}", self.instructions, {SEED: seed}) for seed in range(first, first + count)]


def task_seed(task: Task) -> int:
    seed = task.spec.get(SEED)
    if not isinstance(seed, int) or seed < 0:
        raise DataError(
            f"task {task.id}: seed = {seed!r} must be a non-negative integer; build the tasks with tasks(count)"
        )
    return seed


def with_observation(prompt: Prompt, observation: str, separator: str = "\n\n") -> Prompt:
    """Append the observation to the last message of the prompt."""
    if isinstance(prompt, str):
        return f"{prompt}{separator}{observation}" if prompt else observation
    *before, last = prompt
    content = f"{last['content']}{separator}{observation}" if last["content"] else observation
    return (*before, {**last, "content": content})


def require_same_start(task: Task, observation: str) -> None:
    """Raise if the session starts with a different observation from the one in the episode's prompt."""
    shown = task.prompt if isinstance(task.prompt, str) else task.prompt[-1]["content"]
    if not shown.endswith(observation):
        raise NotReproducibleError(
            f"task {task.id}: the environment started with {observation[:200]!r}, but the prompt of the episode does "
            "not end with it; make the initial observation depend on the task alone"
        )


class PrivateRandom:
    """Private copies of Python's and NumPy's global random states for one session.

    Many environments draw from ``random`` and ``numpy.random``, and one worker holds many sessions. Inside the ``with``
    block, these modules use the session's state.
    """

    def __init__(self, seed: int) -> None:
        python = random.Random(seed)  # noqa: S311 - games, not secrets
        self._own: tuple[Any, Any] = python.getstate(), np.random.RandomState(seed % 2**32).get_state()
        self._outside = self._own

    def __enter__(self) -> Self:
        self._outside = _states()
        _restore(self._own)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._own = _states()
        _restore(self._outside)


def _states() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state()  # noqa: NPY002 - environments use the global generator


def _restore(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002
