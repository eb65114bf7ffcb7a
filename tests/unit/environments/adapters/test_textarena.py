"""TextArena games: single-player and against an opponent, seeded, and replayed after lost workers."""

from __future__ import annotations

import random
import re

import pytest

from steelyard.environments.adapters import TextArenaEnvironment
from steelyard.errors import ConfigError
from steelyard.types import Task, Verdict
from tests.adapter_episodes import play_inline, play_with_kills

pytest.importorskip("textarena", reason="needs the extra textarena")


def bisect(task: Task, turns: list[str]) -> str:
    low, high = 1, 20
    for guess, hint in zip(turns[::2], turns[1::2], strict=True):
        number = int(guess.strip("[]"))
        low, high = (number + 1, high) if "higher" in hint else (low, number - 1)
    return f"[{(low + high) // 2}]"


def any_move(observation: str) -> str:
    return random.choice(re.findall(r"'(\[\d\])'", observation.rpartition("Available Moves")[2]))


def first_move(task: Task, turns: list[str]) -> str:
    shown = turns[-1] if turns else str(task.prompt)
    return re.findall(r"'(\[\d\])'", shown.rpartition("Available Moves")[2])[0]


@pytest.mark.slow
def test_a_game_is_played_and_replayed_after_lost_workers() -> None:
    game = TextArenaEnvironment("GuessTheNumber-v0", instructions="Play well.")
    episodes = play_with_kills(game, game.tasks(3), bisect)
    assert len({len(episode) for episode in episodes}) > 1, "the seed chooses the number"
    for prompt, *replies, verdict in episodes:
        assert prompt.startswith("Play well.\n\nYou are Player 0.")
        assert {reply.messages[0]["content"] for reply in replies} <= {
            "The target number is higher.",
            "The target number is lower.",
        }
        assert verdict == Verdict.scored(1.0, success=True)


@pytest.mark.slow
def test_an_opponent_plays_the_other_seat_with_the_seed_of_the_sample() -> None:
    game = TextArenaEnvironment("TicTacToe-v0", opponent=any_move, seat=1)
    tasks = game.tasks(2)
    episodes = play_with_kills(game, tasks, first_move)
    assert all("[Player 0]" in episode[0] for episode in episodes), "the opponent moves first"
    assert all(episode[-1].reward in (-1.0, 0.0, 1.0) for episode in episodes)
    samples = {str(play_inline(game, tasks[0], first_move, sample=sample)) for sample in range(5)}
    assert len(samples) > 1


def test_interleaved_sessions_do_not_share_random_numbers() -> None:
    game = TextArenaEnvironment("TicTacToe-v0", opponent=any_move)
    task = game.tasks(1)[0]
    prompt = game.start(task)
    opened = [game.open(Task(task.id, prompt, task.spec), seed) for seed in (1, 1, 2)]
    state = random.getstate()
    replies = [[session.reply(move) for session in opened] for move in ("[4]",)]
    assert replies[0][0] == replies[0][1]
    assert random.getstate() == state


def test_the_game_scores_invalid_moves_and_a_limit_ends_it_undecided() -> None:
    game = TextArenaEnvironment("GuessTheNumber-v0")
    *_, invalid, verdict = play_inline(game, game.tasks(1)[0], lambda *_: "no idea")
    assert "invalid move" in invalid.messages[0]["content"]
    assert (verdict.status, verdict.success) == ("scored", False)
    *_, verdict = play_inline(game, game.tasks(1)[0], lambda *_: "[1]", max_turns=1)
    assert verdict == Verdict.scored(0.0)


def test_options_reach_the_game() -> None:
    game = TextArenaEnvironment("GuessTheNumber-v0", max_number=3)
    assert "between 1 and 3" in str(game.start(game.tasks(1)[0]))


@pytest.mark.parametrize(("arguments", "message"), [({"players": 2}, "opponent="), ({"seat": 1}, "seat = 1")])
def test_impossible_seats_are_rejected(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TextArenaEnvironment("TicTacToe-v0", **arguments)  # type: ignore[arg-type]
