"""What an environment is: it answers the policy between its turns and ends the episode with a verdict.

Two forms. An :class:`Environment` is a pure function of the task and of the turns so far. A :class:`SessionEnvironment`
opens a :class:`Session` with state for each episode: a game, a simulator, an interpreter.

::

    class Guess(Environment):
        def reply(self, task, turns):
            number, hidden = int(turns[-1]["content"]), task.spec["hidden"]
            return True if number == hidden else "higher" if number < hidden else "lower"

Environments run where verifiers run, with the same limits, causes of failure and retries.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from steelyard.defaults import SUCCESS_AT
from steelyard.errors import ConfigError
from steelyard.types import FinishReason, Message, Prompt, Reply, Task, Verdict
from steelyard.verification.base import Outcome

Turns = tuple[Message, ...]
"""The messages after the prompt, in order; those with the role ``assistant`` were written by the policy."""

Answer = Reply | str | Sequence[Message] | Verdict | float | bool | None
"""What an environment returns. A reply, a text or messages continue the episode; a verdict, a number or a bool ends it,
as from a verifier."""

LIMITS: Mapping[FinishReason, str] = MappingProxyType(
    {
        "length": "a turn reached sampling.max_new_tokens",
        "episode_length": "the episode reached episode.max_tokens or the model's maximum length",
        "turns": "the episode reached episode.max_turns",
    }
)
"""The limits that end an episode, as a reader of a verdict sees them."""


class Environment(ABC):
    """Answers the policy. Derive a class, give it ``reply``, and declare whatever differs from the defaults below."""

    name: str = ""
    """Empty: the name of the class."""
    floor: float | None = None
    """Reward of a rejected episode; ``None``: 0, or the worst scored reward of its group if that is lower."""
    success_at: float | None = SUCCESS_AT
    """A number r that ends an episode is a success if r >= this; ``None``: numbers are never a success."""
    isolate: bool = True
    """Whether it runs in worker processes; ``False``: it is fast and can neither crash nor hang."""
    keeps_processes: bool = False
    """Whether processes that it starts live from one turn to the next."""
    blame: Mapping[str, Outcome] = MappingProxyType({})
    """What a repeated failure means, by its cause: ``{"timeout": "rejected"}``."""

    def start(self, task: Task) -> Prompt | Reply:
        """Return the initial observation. It is the same for all samples of a task.

        A ``Reply`` may also carry entries of ``Task.spec`` for the episode.
        """
        return task.prompt

    @abstractmethod
    def reply(self, task: Task, turns: Turns) -> Answer:
        """Answer the last turn. The same task and turns must give the same answer."""

    def cut_off(self, task: Task, turns: Turns, limit: FinishReason) -> Answer:
        """Return the verdict of an episode that reached a limit; by default it is rejected."""
        return Verdict.rejected(LIMITS[limit], floor=self.floor)


class Session(ABC):
    """One episode of an environment with state."""

    @abstractmethod
    def reply(self, text: str) -> Answer:
        """Answer what the policy wrote."""

    def cut_off(self, text: str, limit: FinishReason) -> Answer:
        """Return the verdict of an episode that reached a limit; by default it is rejected.

        ``text`` is what the policy wrote since the last reply; empty if the session has answered everything.
        """
        return Verdict.rejected(LIMITS[limit])

    def close(self) -> None:  # noqa: B027 - most sessions hold nothing
        """Release what the session holds."""


class SessionEnvironment(Environment):
    """An environment with state: ``open`` creates it for one episode.

    A session stays on its worker. If the worker is lost, the session is opened on another one and given the same turns
    again; an episode whose replies then differ is unscored. So a session must be deterministic given task and seed.
    """

    @abstractmethod
    def open(self, task: Task, seed: int) -> Session:
        """Open a session. ``seed`` belongs to the sample: every random choice of the session must derive from it."""

    def reply(self, task: Task, turns: Turns) -> Answer:
        raise NotImplementedError("an environment with sessions answers through them")


def as_environment(candidate: object) -> Environment | None:
    """Return the environment that an object or a class stands for; ``None`` if it is anything else."""
    if isinstance(candidate, type) and issubclass(candidate, Environment):
        try:
            inspect.signature(candidate).bind()
        except TypeError as error:
            raise ConfigError(
                f"the environment {candidate.__name__} cannot be created without arguments ({error}): give its "
                "parameters defaults, or pass an instance, in TOML as 'module:instance'"
            ) from None
        return candidate()
    return candidate if isinstance(candidate, Environment) else None


def name_of(environment: Environment) -> str:
    return environment.name or type(environment).__name__


def assistant_texts(turns: Turns) -> list[str]:
    """Return what the policy wrote, turn by turn."""
    return [turn["content"] for turn in turns if turn["role"] == "assistant"]
