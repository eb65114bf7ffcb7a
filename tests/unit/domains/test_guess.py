"""The guess domain: the game, its optimum, its rewards, its tasks and its picture."""

from __future__ import annotations

import itertools
import math
from statistics import fmean

import numpy as np
import pytest

from steelyard.domains.artifacts import Artifact
from steelyard.domains.guess import Guess
from steelyard.domains.guess.game import (
    GuessGame,
    LegalNumbers,
    count_of,
    longest_bisection,
    optimum,
    questions,
    random_player,
)
from steelyard.environments import EnvironmentVerifier
from steelyard.errors import ConfigError, DataError, Invalid
from steelyard.types import Reply, Task, Verdict

GAME = Task("0-14-5", "0 14", {"low": 0, "high": 14, "hidden": 5})


def turns(*texts: str) -> tuple[dict[str, str], ...]:
    """Return the messages of an episode: the policy writes numbers, and the game replies with words."""
    return tuple({"role": "assistant" if text.isdigit() else "user", "content": text} for text in texts)


def rewards(game: GuessGame, task: Task, *numbers: int) -> list[float]:
    """Play the numbers until the game ends, and return the reward of each turn."""
    texts: list[str] = []
    found: list[float] = []
    for number in numbers:
        answer = game.reply(task, turns(*texts, str(number)))
        assert isinstance(answer, Reply | Verdict)
        found.append(answer.reward or 0.0)
        if isinstance(answer, Verdict):
            break
        texts += [str(number), answer.messages[0]["content"]]
    return found


def best_mean(count: int) -> float:
    """Return the best player's mean number of questions, found by trying every first question."""
    if count == 0:
        return 0.0
    totals = [k * best_mean(k) + (count - 1 - k) * best_mean(count - 1 - k) for k in range(count)]
    return (count + min(totals)) / count


def test_bisection_is_optimal() -> None:
    for count in range(1, 12):
        assert optimum(count) == pytest.approx(best_mean(count))
    assert (optimum(1), optimum(3), optimum(7)) == (1, 5 / 3, 17 / 7)
    assert [longest_bisection(count) for count in (1, 2, 3, 7, 8)] == [1, 2, 2, 3, 4]


def test_the_random_player_is_the_mean_over_all_its_games() -> None:
    count, limit = 3, 4
    games = [
        next((turn for turn, number in enumerate(numbers, 1) if number == 0), limit + optimum(count))
        for numbers in itertools.product(range(count), repeat=limit)
    ]
    assert random_player(count, limit) == pytest.approx(fmean(games))


def test_replies_narrow_the_possible_numbers() -> None:
    asked = questions(0, 14, 5, [7, 3, 1, 12, 5, 9])
    assert [one.reply for one in asked] == ["lower", "higher", "higher", "lower", ""]
    assert [(one.low, one.high) for one in asked] == [(0, 14), (0, 6), (4, 6), (4, 6), (4, 6)]
    assert [one.progress for one in asked] == pytest.approx([1, 1, 0, 0, 2])


def test_the_rewards_of_the_turns_add_up_to_the_numbers_minus_questions() -> None:
    found = rewards(GuessGame(), GAME, 7, 3, 12, 5)
    assert sum(found) == pytest.approx((math.log2(16) - 4) / optimum(15))
    assert found[2] == pytest.approx(-1 / optimum(15)), "the reply to 12 was known"
    assert rewards(GuessGame("nothing"), GAME, 7, 5) == pytest.approx([-1 / optimum(15)] * 2)


def test_the_expected_reward_of_a_question_is_highest_in_the_middle() -> None:
    tasks = [Task(str(hidden), "0 10", {"low": 0, "high": 10, "hidden": hidden}) for hidden in range(11)]
    means = [fmean(rewards(GuessGame(), task, number)[0] for task in tasks) for number in range(11)]
    assert int(np.argmax(means)) == 5
    assert means[:6] == sorted(means[:6])
    expected = GuessGame("expected_progress")
    for number, mean in enumerate(means):
        assert {round(rewards(expected, task, number)[0], 9) for task in tasks} == {round(mean, 9)}


def test_naming_the_only_number_left_is_progress() -> None:
    for game in (GuessGame(), GuessGame("expected_progress")):
        assert rewards(game, GAME, 4, 6, 5)[-1] == 0.0
        assert rewards(game, GAME, 4, 6, 7)[-1] == pytest.approx(-1 / optimum(15))


def test_the_verdict_counts_questions_and_a_missed_number_as_the_limit_plus_the_optimum() -> None:
    found = GuessGame().reply(GAME, turns("7", "lower", "5"))
    missed = GuessGame().cut_off(GAME, turns("7", "lower", "6", "lower"), "turns")
    assert isinstance(found, Verdict)
    assert isinstance(missed, Verdict)
    assert (found.success, found.parts["questions"], found.parts["found"]) == (True, 2, 1)
    assert (missed.success, missed.parts["questions"], missed.parts["found"]) == (False, 2 + optimum(15), 0)
    slow = GuessGame().reply(GAME, turns("0", "higher", "1", "higher", "2", "higher", "3", "higher", "5"))
    assert isinstance(slow, Verdict)
    assert not slow.success, "bisection takes at most 4 questions"


def test_a_turn_without_exactly_one_number_is_invalid() -> None:
    for text in ("", "3 4", "seven"):
        with pytest.raises(Invalid, match="must be one number"):
            GuessGame().reply(GAME, ({"role": "assistant", "content": text},))


def test_legal_numbers_are_those_of_the_range_or_the_possible_ones() -> None:
    automaton = LegalNumbers()
    assert list(automaton.moves(automaton.start(GAME))) == [str(number) for number in range(15)]
    after = automaton.moves(automaton.start(GAME))["7"]
    assert automaton.may_end(after)
    assert not automaton.moves(after)
    answer = GuessGame(legal="possible").reply(GAME, turns("7"))
    assert isinstance(answer, Reply)
    task = Task(GAME.id, GAME.prompt, {**GAME.spec, **answer.spec})
    assert list(automaton.moves(automaton.start(task))) == [str(number) for number in range(7)]
    everywhere = GuessGame().reply(GAME, turns("7"))
    assert isinstance(everywhere, Reply)
    assert not everywhere.spec


def test_ranges_of_evaluations_never_occur_in_training() -> None:
    domain = Guess(numbers=16, min_count=4)
    seen = {domain.task("train", index).prompt for index in range(2000)}
    others = {
        split: [domain.task(split, index) for index in range(domain.size(split) or 0)]
        for split in ("validation", "held_out")
    }
    for tasks in others.values():
        ranges = {task.prompt for task in tasks}
        assert ranges
        assert not ranges & seen
        assert len(tasks) == sum(count_of(next(t for t in tasks if t.prompt == each)) for each in ranges)
        assert len({task.id for task in tasks}) == len(tasks)
    assert not {t.prompt for t in others["validation"]} & {t.prompt for t in others["held_out"]}
    assert domain.task("train", 7) == Guess(numbers=16, min_count=4).task("train", 7)
    assert domain.task("train", 7) != Guess(numbers=16, min_count=4, seed=1).task("train", 7)


def test_the_vocabulary_covers_prompts_numbers_and_replies() -> None:
    domain = Guess(numbers=12, min_count=4)
    words = set(domain.vocabulary())
    assert {"higher", "lower", "11"} <= words
    assert all(set(str(domain.task("train", index).prompt).split()) <= words for index in range(50))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"numbers": 4, "min_count": 5}, "min_count=5"),
        ({"numbers": 8, "max_count": 9}, "max_count=9"),
        ({"legal": "any"}, "legal='any'"),
        ({"earned": "bits"}, "earned='bits'"),
        ({"numbers": 8, "min_count": 8}, "leave no range"),
    ],
)
def test_impossible_options_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Guess(**options)  # type: ignore[arg-type]


def test_the_environment_is_a_verifier_of_episodes() -> None:
    assert EnvironmentVerifier(Guess().verifier()).name == "guess"


def test_a_game_is_drawn_reported_and_summarised() -> None:
    domain = Guess(numbers=16, min_count=4)
    verdict = GuessGame().reply(GAME, turns("7", "lower", "5"))
    assert isinstance(verdict, Verdict)
    artifact = Artifact("7lower5", domain.describe(GAME), GAME.spec, verdict)
    picture = domain.render([artifact]).decode()
    assert "7 lower" in picture
    assert "5 found" in picture
    report = domain.report("7lower5", GAME.spec)
    assert [row.cells for row in report.rows] == [("1", "7", "lower", "7"), ("2", "5", "found", "0")]
    assert report.good
    assert not domain.report("7lower3higher", GAME.spec).good
    line = domain.summary([artifact]).lines[0]
    assert line.startswith("2 questions on average, 0.")
    with pytest.raises(DataError, match="--spec"):
        domain.report("7")
