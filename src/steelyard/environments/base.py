"""The environment interface: an environment answers each of the policy's turns and ends the episode with a verdict.

There are two kinds. An :class:`Environment` is a pure function of the task and the turns so far. A
:class:`SessionEnvironment` opens a stateful :class:`Session` for each episode, such as a game, a simulator or an
interpreter.

::

    class Guess(Environment):
        def reply(self, task, turns):
            number, hidden = int(turns[-1]["content"]), task.spec["hidden"]
            return True if number == hidden else "higher" if number < hidden else "lower"

Environments run in the same processes as verifiers, with the same limits, failure causes and retries.
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
"""An environment's answer to a turn. A reply, a string or messages continue the episode; a verdict, a number or a bool
ends it, as if returned by a verifier."""

LIMITS: Mapping[FinishReason, str] = MappingProxyType(
    {
        "length": "a turn reached sampling.max_new_tokens",
        "episode_length": "the episode reached episode.max_tokens or the model's maximum length",
        "turns": "the episode reached episode.max_turns",
    }
)
"""Descriptions of the limits that end an episode, for the reason in its verdict."""


class Environment(ABC):
    """Answers the policy. Subclass it, define ``reply``, and override any of the defaults below."""

    name: str = ""
    """Name in messages and metrics; if empty, the name of the class."""
    floor: float | None = None
    """Reward of a rejected episode; ``None``: 0, or the worst scored reward of its group if that is lower."""
    success_at: float | None = SUCCESS_AT
    """Minimum final reward that counts as a success; ``None``: a number is never a success."""
    isolate: bool = True
    """Whether to run in worker processes; set to ``False`` only if it is fast and can neither crash nor hang."""
    keeps_processes: bool = False
    """Whether processes that the environment starts keep running between turns."""
    blame: Mapping[str, Outcome] = MappingProxyType({})
    """Outcome of a repeated failure, by cause, for example ``{"timeout": "rejected"}``."""

    def start(self, task: Task) -> Prompt | Reply:
        """Return the initial observation, which must be the same for all samples of a task.

        A ``Reply`` may also contain entries to add to ``Task.spec`` for the episode.
        """
        return task.prompt

    @abstractmethod
    def reply(self, task: Task, turns: Turns) -> Answer:
        """Answer the last turn. The same task and turns must give the same answer."""

    def cut_off(self, task: Task, turns: Turns, limit: FinishReason) -> Answer:
        """Return the verdict of an episode that reached a limit; by default it is rejected."""
        return Verdict.rejected(LIMITS[limit], floor=self.floor)


class Session(ABC):
    """One episode of a stateful environment."""

    @abstractmethod
    def reply(self, text: str) -> Answer:
        """Answer the policy's turn ``text``."""

    def cut_off(self, text: str, limit: FinishReason) -> Answer:
        """Return the verdict of an episode that reached a limit; by default it is rejected.

        ``text`` is the unanswered turn of the policy, or empty if the session has answered every turn.
        """
        return Verdict.rejected(LIMITS[limit])

    def close(self) -> None:  # noqa: B027 - most sessions hold nothing
        """Release the session's resources."""


class SessionEnvironment(Environment):
    """A stateful environment: ``open`` creates the state of one episode.

    A session stays on its worker. If the worker is lost, another worker opens the session and replays its turns; if the
    replies then differ, the episode is unscored. A session must therefore be deterministic for a given task and seed.
    """

    @abstractmethod
    def open(self, task: Task, seed: int) -> Session:
        """Open a session. ``seed`` is specific to the sample; the session must derive every random choice from it."""

    def reply(self, task: Task, turns: Turns) -> Answer:
        raise NotImplementedError("a SessionEnvironment replies through its sessions; call open(task, seed) first")


def as_environment(candidate: object) -> Environment | None:
    """Return the environment given as an object or a class; ``None`` for anything else."""
    if isinstance(candidate, type) and issubclass(candidate, Environment):
        try:
            inspect.signature(candidate).bind()
        except TypeError as error:
            raise ConfigError(
                f"the environment {candidate.__name__} cannot be created without arguments ({error}): give its "
                "parameters defaults, or pass an instance (in TOML: 'module:instance')"
            ) from None
        return candidate()
    return candidate if isinstance(candidate, Environment) else None


def name_of(environment: Environment) -> str:
    return environment.name or type(environment).__name__


def assistant_texts(turns: Turns) -> list[str]:
    """Return the text of each of the policy's turns."""
    return [turn["content"] for turn in turns if turn["role"] == "assistant"]
