"""TextArena games: the policy plays in one seat, and functions play in the others.

::

    game = TextArenaEnvironment("GuessTheNumber-v0")
    steelyard.train(..., tasks=game.tasks(256), verifier=game, episode={"max_turns": 20})

The reward is the one that the game returns at its end: in most games, 1 for a win and -1 for a loss.
"""

from __future__ import annotations

from collections.abc import Callable
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
from steelyard.types import FinishReason, Prompt, Task, Verdict

Opponent = Callable[[str], str]


class TextArenaEnvironment(SeededEnvironment):
    """A TextArena game, given by its id."""

    def __init__(
        self,
        game: str,
        *,
        opponent: Opponent | None = None,
        players: int | None = None,
        seat: int = 0,
        instructions: str = "",
        **options: Any,
    ) -> None:
        """Adapt ``textarena.make(game, **options)``.

        ``opponent``: a function from an observation to an action, such as a TextArena agent, which plays in every other
        seat. ``players``: the number of players; by default 1, or 2 with an opponent. ``seat``: the policy's seat.
        ``instructions``: the start of every prompt, before the game's own rules.
        """
        self.game, self.opponent, self.options = game, opponent, options
        self.players = players or (1 if opponent is None else 2)
        self.seat, self.instructions = seat, instructions
        if self.players > 1 and opponent is None:
            raise ConfigError(
                f"{game}: players = {self.players} needs an opponent for the other seats; pass opponent=, a function "
                "from an observation to an action"
            )
        if not 0 <= seat < self.players:
            raise ConfigError(f"{game}: seat = {seat} must be between 0 and {self.players - 1}, one per player")

    def load_package(self) -> Any:
        with optional(self.title, "textarena"):
            import textarena
        return textarena

    @property
    def title(self) -> str:
        return self.game

    def start(self, task: Task) -> Prompt:
        return with_observation(task.prompt, self.begin(task)[1])

    def open(self, task: Task, seed: int) -> Session:
        game, observation = self.begin(task)
        require_same_start(task, observation)
        return _GameSession(self, game, seed)

    def begin(self, task: Task) -> tuple[Any, str]:
        """Set up the game for the task's seed and play it up to the policy's first turn."""
        seed = task_seed(task)
        textarena = self.load_package()
        with PrivateRandom(seed):
            game = textarena.make(self.game, **self.options)
            game.reset(num_players=self.players, seed=seed)
            if self.play_others(game):
                raise ConfigError(
                    f"{task.id}: the game ended before the policy's first turn (seat {self.seat}); choose another seat"
                )
            return game, self.observation(game)

    def play_others(self, game: Any) -> bool:
        """Play until it is the policy's turn; return whether the game is over."""
        while self.opponent is not None and not game.state.done and game.state.current_player_id != self.seat:
            _, observation = game.get_observation()
            game.step(self.opponent(observation))
        return bool(game.state.done)

    def observation(self, game: Any) -> str:
        """Return the messages that the policy has not seen yet, except its own actions."""
        textarena, inner = self.load_package(), game
        while isinstance(inner, textarena.Wrapper):
            inner = inner.env  # the wrappers repeat the whole history
        _, observed = inner.get_observation()
        if isinstance(observed, str):
            return observed
        action, roles = textarena.ObservationType.PLAYER_ACTION, game.state.role_mapping
        lines = [
            f"[{roles.get(sender, f'Player {sender}')}] {text}" if kind is action else text
            for sender, text, kind in observed
            if not (kind is action and sender == self.seat)
        ]
        return "\n".join(lines)


class _GameSession(Session):
    def __init__(self, environment: TextArenaEnvironment, game: Any, seed: int) -> None:
        self.environment, self.game = environment, game
        self.random = PrivateRandom(seed)

    def reply(self, text: str) -> Answer:
        environment = self.environment
        with self.random:
            self.game.step(text)
            if not environment.play_others(self.game):
                return environment.observation(self.game)
            rewards, _ = self.game.close()
        return float((rewards or {}).get(environment.seat, 0.0))

    def cut_off(self, text: str, limit: FinishReason) -> Answer:
        """Return a reward of 0, because an unfinished game is neither won nor lost."""
        return Verdict.scored(0.0)
