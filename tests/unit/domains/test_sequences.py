"""The sequences domain: tasks, splits, answers and rewards."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.domains import Split
from steelyard.domains.sequences import Sequences
from steelyard.domains.sequences.domain import score, split_of
from steelyard.errors import ConfigError
from steelyard.types import Task, Verdict

SPLITS: tuple[Split, ...] = ("train", "validation", "held_out")


def all_tasks(domain: Sequences, split: Split) -> list[Task]:
    return [domain.task(split, index) for index in range(domain.size(split))]


def contents(domain: Sequences, split: Split) -> set[str]:
    return {task.prompt.split(" ", 1)[1] for task in all_tasks(domain, split) if isinstance(task.prompt, str)}


@pytest.mark.parametrize(
    ("kind", "prompt", "answer"),
    [
        ("copy", "copy 3 0 2 =", "3 0 2"),
        ("sort", "sort 3 0 2 =", "0 2 3"),
        ("reverse", "reverse 3 0 2 =", "2 0 3"),
        ("count", "count 3 0 2 =", "1"),
    ],
)
def test_each_kind_has_its_answer(kind: str, prompt: str, answer: str) -> None:
    domain = Sequences(kinds=(kind,), min_length=3, max_length=3, symbols=4)
    tasks = {task.prompt: task for split in SPLITS for task in all_tasks(domain, split)}
    assert len(tasks) == 4**3
    assert tasks[prompt] == Task(f"{kind}-3-0-2", prompt, {"kind": kind, "answer": answer}, 3.0)


def test_there_are_at_least_500_distinct_training_tasks() -> None:
    prompts = [task.prompt for task in all_tasks(Sequences(), "train")]
    assert len(set(prompts)) == len(prompts) >= 500


def test_splits_are_disjoint_and_complete() -> None:
    domain = Sequences()
    found = [contents(domain, split) for split in SPLITS]
    assert sum(map(len, found)) == len(set.union(*found))
    assert sum(domain.size(split) for split in SPLITS) == len(domain.kinds) * sum(
        domain.symbols**length for length in range(domain.min_length, domain.max_length + 1)
    )


def test_the_seed_changes_the_order_but_not_the_split() -> None:
    one, other = Sequences(seed=0), Sequences(seed=1)
    for split in SPLITS:
        assert all_tasks(one, split) == all_tasks(Sequences(seed=0), split)
        assert all_tasks(one, split) != all_tasks(other, split)
        assert contents(one, split) == contents(other, split)


def test_the_split_of_a_sequence_never_changes() -> None:
    sequences = [(0, 0), (0, 5), (0, 7), (5, 1), (7, 7, 7)]
    assert [split_of(symbols) for symbols in sequences] == ["train", "validation", "validation", "validation", "train"]


def test_the_vocabulary_contains_every_word_of_every_task() -> None:
    domain = Sequences(kinds=("copy", "count"), min_length=1, max_length=5, symbols=3)
    assert domain.vocabulary() == ("<pad>", "<bos>", "<eos>", "copy", "count", "=", "0", "1", "2", "3", "4", "5")
    words = {
        word
        for split in SPLITS
        for task in all_tasks(domain, split)
        for word in f"{task.prompt} {task.spec['answer']}".split()
    }
    assert words <= set(domain.vocabulary())


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("1 2 3", 1.0),
        (" 1  2 3\n", 1.0),
        ("1 3 2", 1 / 3),
        ("1 2", 2 / 3),
        ("1 2 3 3", 3 / 4),
        ("1 2 3 copy 0 1", 1 / 2),
        ("3 1 2", 0.0),
        ("", 0.0),
    ],
)
def test_the_reward_is_the_share_of_correct_positions(text: str, reward: float) -> None:
    task = Task("t", "sort 3 1 2 =", {"answer": "1 2 3"})
    assert score(task, text) == Verdict.scored(reward, success=reward == 1.0)


def test_an_untrained_policy_scores_at_most_a_third() -> None:
    """Answers of up to six random words give an upper bound for a randomly initialised model."""
    domain, generator = Sequences(), np.random.default_rng(0)
    words = domain.vocabulary()[3:]
    rewards = [
        score(task, " ".join(generator.choice(words, size=generator.integers(0, 7)))).reward
        for task in all_tasks(domain, "held_out")
        for _ in range(20)
    ]
    assert np.mean(rewards) <= 0.3


def test_the_verifier_is_deterministic_and_versioned() -> None:
    verifier = Sequences().verifier()
    assert (verifier.name, verifier.deterministic, verifier.version) == ("sequences", True, "1")
    assert verifier.version != Sequences(step_rewards=True).verifier().version, "verdicts with step rewards differ"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kinds": ("sort", "shuffle")}, "choose from copy, sort, reverse, count"),
        ({"kinds": ()}, "choose from"),
        ({"kinds": ("sort", "sort")}, "each once"),
        ({"min_length": 0}, "1 <= min_length"),
        ({"min_length": 4}, "min_length <= max_length"),
        ({"symbols": 1}, "symbols >= 2"),
        ({"max_length": 12}, "more than 200000; reduce symbols or max_length"),
    ],
)
def test_invalid_parameters_are_rejected(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Sequences(**settings)  # pyright: ignore[reportArgumentType]
