"""Boxes in a bin: the language contains exactly the valid packings."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from steelyard.constraints.automaton import Automaton, WordConstraint
from steelyard.constraints.base import members
from steelyard.constraints.examples.boxes import Boxes
from steelyard.errors import ConstraintError
from steelyard.types import Task
from tests.automata import packed, samples


def constraint_for(width: int, height: int) -> tuple[WordConstraint[Any], tuple[str, ...]]:
    boxes = Boxes(width, height)
    words = ("<end>", *boxes.alphabet())
    return WordConstraint(boxes, words, 0), words


def test_the_words() -> None:
    assert Boxes(2, 3).alphabet() == ("skip", "c0", "c1", "r0", "r1", "r2")


@pytest.mark.parametrize(
    ("width", "height", "boxes"),
    [
        (2, 2, []),
        (2, 1, [[1, 1], [1, 1]]),
        (2, 2, [[2, 1], [1, 1]]),
        (2, 2, [[3, 1], [1, 2]]),
        (3, 2, [[2, 2], [1, 1]]),
    ],
)
@pytest.mark.parametrize("more", [0, 1, 2, 5])
def test_the_samples_are_exactly_the_packings(width: int, height: int, boxes: list[list[int]], more: int) -> None:
    constraint, words = constraint_for(width, height)
    longest = len(boxes) + min(more, len(boxes))
    sentences = (said for length in range(longest + 1) for said in itertools.product(words[1:], repeat=length))
    expected = {said for said in sentences if packed(said, boxes, width, height)}
    found = samples(constraint, len(boxes) + 1 + more, Task("t", "", {"boxes": boxes}))
    assert {tuple(words[token] for token in tokens) for tokens in found} == expected


def test_only_free_places_are_allowed() -> None:
    constraint, words = constraint_for(3, 2)

    def allowed() -> list[str]:
        return [words[token] for token in members(walk.allowed(20))]

    walk = constraint.begin(Task("t", "", {"boxes": [[2, 2], [1, 2], [1, 1]]}))
    assert allowed() == ["skip", "c0", "c1"]
    walk.advance(words.index("c1"))
    assert allowed() == ["r0"]
    assert [words[token] for token in walk.forced(20)] == ["r0"]
    walk.advance(words.index("r0"))
    assert allowed() == ["skip", "c0"]
    assert [words[token] for token in walk.forced(3)] == ["skip", "skip", "<end>"]
    walk.advance(words.index("c0"))
    walk.advance(words.index("r0"))
    assert [words[token] for token in walk.forced(20)] == ["skip", "<end>"], "the bin is full"


def test_the_formula_agrees_with_a_search() -> None:
    boxes = Boxes(3, 2)
    states = [boxes.start(Task("t", "", {"boxes": [[2, 1], [1, 2], [1, 1]]}))]
    for state in states:
        assert boxes.shortest_end(state) == Automaton.shortest_end(boxes, state)
        following = boxes.moves(state).values()
        assert all(boxes.shortest_end(after) <= boxes.shortest_end(state) + boxes.stretch for after in following)
        states += following
    assert len(states) > 20


@pytest.mark.parametrize("boxes", [None, 3, [3], [[1]], [[0, 1]], [[1.5, 1]], [["1", "1"]]])
def test_a_task_without_valid_boxes_is_rejected(boxes: object) -> None:
    constraint, _ = constraint_for(2, 2)
    with pytest.raises(ConstraintError, match=r"spec\['boxes'\] of task 'odd'"):
        constraint.begin(Task("odd", "", {"boxes": boxes}))
