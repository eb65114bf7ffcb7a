"""Environments of the package ``verifiers`` (0.4), with the policy in the place of the model.

::

    environment = VerifiersEnvironment("my-taskset")
    steelyard.train(..., tasks=environment.tasks(256), verifier=environment)

The environment runs unchanged: its tasks, tool servers, stop conditions, limits and rewards. It asks for a completion
where it would ask a model, and the episode waits there for the next turn of the policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from steelyard.environments.adapters.base import AdaptedEnvironment, PrivateRandom, optional
from steelyard.environments.adapters.tool_prompts import with_tools
from steelyard.environments.base import Answer, Session
from steelyard.environments.running import NotReproducibleError
from steelyard.types import FinishReason, Message, Prompt, Task, Verdict

if TYPE_CHECKING:
    from steelyard.environments.adapters.verifiers_policy import Asked, Engine, Played

DATA = "task"
"""Entry of a task's spec: the data of the task in ``verifiers``."""
START_SEED = 0
"""Random choices before the first turn are the same for all samples."""


class VerifiersEnvironment(AdaptedEnvironment):
    """An environment of ``verifiers``, by the id of its taskset.

    A seat whose model is not set is played by the policy; there must be one. It gets a chat loop with the tools of the
    task that runs in the worker, unless its ``harness`` is set, and the ``subprocess`` runtime, unless that is set.
    """

    keeps_processes = True  # tool servers

    def __init__(self, taskset: str | Mapping[str, Any], **environment: Any) -> None:
        """``taskset``: its id, or its configuration with ``id``. ``environment``: other keys of the ``[env]`` table,
        such as ``agent={"max_turns": 8}``.
        """
        table = {"id": taskset} if isinstance(taskset, str) else dict(taskset)
        self.config = {"taskset": table, **environment}
        self.name = str(table["id"])
        self._engine: Engine | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engine": None}

    def load_package(self) -> Any:
        with optional(self.name, "verifiers"):
            from steelyard.environments.adapters import verifiers_policy
        return verifiers_policy

    def tasks(self, count: int, *, first: int = 0) -> list[Task]:
        """Return tasks of the taskset in its order."""
        found = self.load_package().task_data(self.config, first, count)
        return [Task(f"{self.name}-{first + index}", text, {DATA: data}) for index, (text, data) in enumerate(found)]

    def start(self, task: Task) -> Prompt:
        played, asked = self._begin(task)
        played.close()
        return _prompt(asked)

    def open(self, task: Task, seed: int) -> Session:
        played, asked = self._begin(task)
        if _messages(_prompt(asked)) != _messages(task.prompt):
            played.close()
            raise NotReproducibleError(
                f"task {task.id}: the environment starts with another prompt than before; derive it from the task"
            )
        return _VerifiersSession(self, played, seed)

    def close(self) -> None:
        """Stop the servers of this process; of interest only if episodes ran here and not in workers."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _begin(self, task: Task) -> tuple[Played, Asked]:
        engine = self._engine or self.load_package().Engine(self.config)
        self._engine = engine
        with PrivateRandom(START_SEED):
            played = engine.play(task.spec[DATA])
            asked = played.advance()
        if asked is None:
            raise RuntimeError(f"task {task.id}: the episode ended before the policy was asked: {played.outcome}")
        return played, asked


class _VerifiersSession(Session):
    def __init__(self, environment: VerifiersEnvironment, played: Played, seed: int) -> None:
        self.environment, self.played = environment, played
        self.random = PrivateRandom(seed)

    def reply(self, text: str) -> Answer:
        with self.random:
            self.played.answer(text)
            asked = self.played.advance()
        return self._verdict() if asked is None else asked.messages

    def cut_off(self, text: str, limit: FinishReason) -> Answer:
        """End the episode as ``verifiers`` ends one at a limit: it is scored as it is."""
        with self.random:
            self.played.stop(text, str(limit))
            self.played.advance()
        return self._verdict()

    def close(self) -> None:
        self.played.close()

    def _verdict(self) -> Verdict:
        outcome = self.played.outcome
        enough = self.environment.success_at
        return Verdict.scored(
            outcome.reward, success=enough is not None and outcome.reward >= enough, parts=outcome.parts
        )


def _prompt(asked: Asked) -> Prompt:
    return with_tools(tuple(asked.messages), asked.tools)


def _messages(prompt: Prompt) -> tuple[Message, ...]:
    return ({"role": "user", "content": prompt},) if isinstance(prompt, str) else tuple(map(dict, prompt))
