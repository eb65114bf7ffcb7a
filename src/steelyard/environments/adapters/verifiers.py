"""Environments from the ``verifiers`` package (0.4), with the policy in place of the model.

::

    environment = VerifiersEnvironment("my-taskset")
    steelyard.train(..., tasks=environment.tasks(256), verifier=environment)

The environment runs unchanged: its tasks, tool servers, stop conditions, limits and rewards. Where it would request a
completion from a model, the episode waits for the policy's next turn.
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
"""Key in a task's spec that holds the task's data for ``verifiers``."""
START_SEED = 0
"""Seed for random choices before the first turn, which are the same for all samples."""


class VerifiersEnvironment(AdaptedEnvironment):
    """A ``verifiers`` environment, given by the id of its taskset.

    The policy plays in the seat whose model is not set; there must be exactly one. Unless configured otherwise, that
    seat uses the ``subprocess`` runtime and a ``harness`` that runs a chat loop with the task's tools in the worker.
    """

    keeps_processes = True  # tool servers

    def __init__(self, taskset: str | Mapping[str, Any], **environment: Any) -> None:
        """``taskset``: an id, or a taskset configuration that contains ``id``. ``environment``: other keys of the
        ``[env]`` table, such as ``agent={"max_turns": 8}``.
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
        """Return ``count`` tasks of the taskset in order, starting at index ``first``."""
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
                f"task {task.id}: the environment started with a different prompt than before; derive the prompt from "
                "the task alone"
            )
        return _VerifiersSession(self, played, seed)

    def close(self) -> None:
        """Stop the servers of this process; needed only if episodes ran here instead of in workers."""
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
            raise RuntimeError(f"task {task.id}: the episode ended before the policy's first turn: {played.outcome}")
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
        """End the episode as ``verifiers`` does at a limit, and score it as it stands."""
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
