"""Gymnasium environments as text: the policy reads observations as text and writes the name of an action.

::

    lake = GymnasiumEnvironment("FrozenLake-v1", actions=["left", "down", "right", "up"])
    steelyard.train(..., tasks=lake.tasks(256), verifier=lake, episode={"max_turns": 100})

Each turn receives the reward of its environment step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from steelyard.environments.adapters.base import (
    PrivateRandom,
    SeededEnvironment,
    optional,
    require_same_start,
    task_seed,
    with_observation,
)
from steelyard.environments.base import Answer, Session
from steelyard.errors import ConfigError
from steelyard.types import FinishReason, Prompt, Reply, Task, Verdict

Actions = Mapping[str, Any] | Sequence[str] | Callable[[str], Any]
Observe = Callable[[Any, dict[str, Any]], str]

_COLOURED = re.compile(r"\x1b\[[0-9;]+m(.*?)\x1b\[0m", re.DOTALL)


class GymnasiumEnvironment(SeededEnvironment):
    """A Gymnasium environment, given by its id or by a function that builds it."""

    def __init__(
        self,
        environment: str | Callable[..., Any],
        *,
        actions: Actions | None = None,
        observe: Observe | None = None,
        instructions: str | None = None,
        reject_invalid: bool = False,
        **options: Any,
    ) -> None:
        """Adapt ``gymnasium.make(environment, **options)``, or ``environment(**options)``.

        ``actions``: the names of the actions 0, 1, …; a mapping from names to actions; or a function from the text of a
        turn to an action, which raises ``ValueError`` if the text is not an action. By default, the policy writes the
        number of a discrete action, or the action itself if actions are strings.

        ``observe``: a function from observation and info to text. By default, observations must be strings, or the
        environment must be able to render itself as text (``render_mode="ansi"``); coloured characters are put in
        brackets.

        ``instructions``: the start of every prompt, by default the list of actions. ``reject_invalid``: reject the
        episode if a turn is not a valid action; by default, the reply reports the mistake and the policy may try again.
        """
        self.environment, self.observe, self.options = environment, observe, options
        self.reject_invalid = reject_invalid
        self.actions: Mapping[str, Any] | Callable[[str], Any] | None = (
            actions
            if actions is None or callable(actions)
            else {name.casefold(): value for name, value in _named(actions).items()}
        )
        named = f"{self.menu} Write one per turn." if self.menu else ""
        self.instructions = named if instructions is None else instructions

    def load_package(self) -> Any:
        with optional(self.title, "gymnasium"):
            import gymnasium
        return gymnasium

    @property
    def title(self) -> str:
        return self.environment if isinstance(self.environment, str) else self.environment.__name__

    @property
    def menu(self) -> str:
        """The list of actions as a sentence; empty if they have no names."""
        return f"Actions: {', '.join(self.actions)}." if isinstance(self.actions, Mapping) else ""

    def start(self, task: Task) -> Prompt:
        game, observation = self._begin(task)
        game.close()
        return with_observation(task.prompt, observation)

    def open(self, task: Task, seed: int) -> Session:
        game, observation = self._begin(task)
        require_same_start(task, observation)
        return _GymnasiumSession(self, game, seed)

    def action_of(self, game: Any, text: str) -> Any:
        """Return the action that a turn names; raise ``ValueError`` for any other text."""
        written = text.strip()
        if callable(self.actions):
            return self.actions(text)
        if self.actions is not None:
            if written.casefold() not in self.actions:
                raise ValueError(f"{written[:100]!r} is not an action. {self.menu}")
            return self.actions[written.casefold()]
        space = game.action_space
        if type(space).__name__ == "Text":
            return written
        if not written.isdigit() or not space.contains(int(written)):
            raise ValueError(f"{written[:100]!r} is not an action. Write a number of {space}.")
        return int(written)

    def text_of(self, game: Any, observation: Any, info: dict[str, Any]) -> str:
        """Return an observation as text."""
        if self.observe is not None:
            return self.observe(observation, info)
        if isinstance(observation, str):
            return observation
        return _COLOURED.sub(r"[\1]", str(game.render())).strip("\n")

    def _begin(self, task: Task) -> tuple[Any, str]:
        """Build the environment in the initial state for the task's seed."""
        seed = task_seed(task)
        with PrivateRandom(seed):
            game = self._make()
            observation, info = game.reset(seed=seed)
            return game, self.text_of(game, observation, info)

    def _make(self) -> Any:
        gymnasium, options = self.load_package(), self.options
        make = self.environment if callable(self.environment) else gymnasium.make
        arguments = () if callable(self.environment) else (self.environment,)
        game = make(*arguments, **options)
        if self.observe is not None or isinstance(game.observation_space, gymnasium.spaces.Text):
            return game
        if game.render_mode == "ansi":
            return game
        game.close()
        if "ansi" not in game.metadata.get("render_modes", ()):
            raise ConfigError(
                f"{self.title}: observations are {game.observation_space}, which is not text, and the environment does "
                "not render itself as text; pass observe=, a function from observation and info to text"
            )
        return make(*arguments, **{**options, "render_mode": "ansi"})


class _GymnasiumSession(Session):
    def __init__(self, environment: GymnasiumEnvironment, game: Any, seed: int) -> None:
        self.environment, self.game = environment, game
        self.earned = 0.0
        self.random = PrivateRandom(seed)
        gymnasium = environment.load_package()
        game.unwrapped.np_random = gymnasium.utils.seeding.np_random(seed)[0]

    def reply(self, text: str) -> Answer:
        try:
            action = self.environment.action_of(self.game, text)
        except ValueError as error:
            return Verdict.rejected(str(error)) if self.environment.reject_invalid else str(error)
        with self.random:
            observation, reward, terminated, truncated, info = self.game.step(action)
            self.earned += float(reward)
            if terminated or truncated:
                return self._verdict(float(reward))
            return Reply.text(self.environment.text_of(self.game, observation, info), reward=float(reward))

    def cut_off(self, text: str, limit: FinishReason) -> Answer:
        """Keep the rewards earned so far; a truncated turn is not played."""
        return self._verdict(0.0)

    def close(self) -> None:
        self.game.close()

    def _verdict(self, reward: float) -> Verdict:
        """Success depends on the total reward of the episode; ``reward`` is that of the last turn only."""
        enough = self.environment.success_at
        return Verdict.scored(reward, success=enough is not None and self.earned >= enough)


def _named(actions: Mapping[str, Any] | Sequence[str]) -> Mapping[str, Any]:
    return actions if isinstance(actions, Mapping) else {name: number for number, name in enumerate(actions)}
