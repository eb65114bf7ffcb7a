"""Gymnasium environments: text in and out, step rewards, seeds, and replay after lost workers."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.environments.adapters import GymnasiumEnvironment
from steelyard.errors import ConfigError, DataError
from steelyard.types import Task, Verdict
from steelyard.verification import Cause
from tests.adapter_episodes import play_inline, play_with_kills

gymnasium = pytest.importorskip("gymnasium", reason="needs the extra gymnasium")

MOVES = ["left", "down", "right", "up"]


class Echo(gymnasium.Env):
    """Observations and actions are texts; the episode ends when the word chosen by the seed is given."""

    observation_space = gymnasium.spaces.Text(100)
    action_space = gymnasium.spaces.Text(100)
    metadata = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.word = "ab"[int(self.np_random.integers(2))]
        return f"start {self.word}", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return f"{action}{self.np_random.integers(1000)}", 0.5, action == self.word, False, {}


def walk(task: Task, turns: list[str]) -> str:
    """Slide along the top row, which has no hole, and then down."""
    return "up" if len(turns) < 8 else "down"


@pytest.mark.slow
def test_a_rendered_environment_is_played_and_replayed_after_lost_workers() -> None:
    lake = GymnasiumEnvironment("FrozenLake-v1", actions=MOVES)
    episodes = play_with_kills(lake, lake.tasks(1), walk)
    for prompt, *_, verdict in episodes:
        assert prompt.startswith("Actions: left, down, right, up.")
        assert prompt.endswith("[S]FFF\nFHFH\nFFFH\nHFFG")
        assert verdict.status == "scored"
    assert len(episodes[0]) > 5


def test_later_random_choices_belong_to_the_sample_and_the_start_to_the_task() -> None:
    lake = GymnasiumEnvironment("FrozenLake-v1", actions=MOVES)
    (task,) = lake.tasks(1)
    samples = [play_inline(lake, task, walk, sample=sample) for sample in range(6)]
    assert len({str(sample) for sample in samples}) > 2
    assert len({sample[0] for sample in samples}) == 1
    assert samples[3] == play_inline(lake, task, walk, sample=3)


def test_rewards_of_steps_are_rewards_of_turns_and_a_limit_keeps_them() -> None:
    cliff = GymnasiumEnvironment("CliffWalking-v1", actions={"up": 0, "right": 1})
    _, *replies, verdict = play_inline(cliff, cliff.tasks(1)[0], lambda *_: "UP ", max_turns=3)
    assert [reply.reward for reply in replies] == [-1.0] * 3
    assert verdict == Verdict.scored(0.0)


def test_a_text_that_is_not_an_action_is_answered_with_the_actions() -> None:
    cliff = GymnasiumEnvironment("CliffWalking-v1", actions={"up": 0, "right": 1})
    _, reply, _ = play_inline(cliff, cliff.tasks(1)[0], lambda *_: "jump", max_turns=1)
    assert "'jump'" in reply.messages[0]["content"]
    assert "up, right" in reply.messages[0]["content"]
    assert reply.reward is None
    numbers = GymnasiumEnvironment("CliffWalking-v1")
    _, reply, _ = play_inline(numbers, numbers.tasks(1)[0], lambda *_: "7", max_turns=1)
    assert "Discrete(4)" in reply.messages[0]["content"]
    strict = GymnasiumEnvironment("CliffWalking-v1", actions={"up": 0}, reject_invalid=True)
    _, verdict = play_inline(strict, strict.tasks(1)[0], lambda *_: "jump")
    assert (verdict.status, "'jump'" in verdict.reason) == ("rejected", True)


def test_texts_as_observations_and_actions_need_no_functions() -> None:
    echo = GymnasiumEnvironment(Echo, instructions="Repeat the word.")
    prompts = [play_inline(echo, task, lambda task, _: task.prompt[-1])[0] for task in echo.tasks(8)]
    assert set(prompts) == {"Repeat the word.\n\nstart a", "Repeat the word.\n\nstart b"}
    _, first, *_ = play_inline(echo, echo.tasks(1)[0], lambda *_: "x", max_turns=1)
    assert first.messages[0]["content"].startswith("x")
    *_, verdict = play_inline(echo, echo.tasks(1)[0], lambda task, turns: task.prompt[-1] if turns else "x")
    assert verdict == Verdict.scored(0.5, success=True), "success counts the rewards of all turns"


def test_functions_translate_observations_and_actions() -> None:
    pole = GymnasiumEnvironment(
        "CartPole-v1", observe=lambda state, _: f"{len(state)} numbers", actions=lambda text: int("push" in text)
    )
    prompt, *_, verdict = play_inline(pole, pole.tasks(1)[0], lambda *_: "push", max_turns=50)
    assert prompt == "4 numbers"
    assert verdict.status == "scored"


def test_what_cannot_work_is_reported_with_the_solution() -> None:
    pole = GymnasiumEnvironment("CartPole-v1")
    with pytest.raises(ConfigError, match=r"CartPole-v1.*observe="):
        pole.start(pole.tasks(1)[0])
    with pytest.raises(DataError, match=r"seed.*tasks\(count\)"):
        pole.start(Task("t", "", {}))


def test_another_start_is_not_reproducible() -> None:
    lake = GymnasiumEnvironment("FrozenLake-v1", actions=MOVES, observe=lambda *_: str(next(counter)))
    counter = iter(range(100))
    *_, verdict = play_inline(lake, lake.tasks(1)[0], walk)
    assert verdict.cause == Cause.NOT_REPRODUCIBLE
