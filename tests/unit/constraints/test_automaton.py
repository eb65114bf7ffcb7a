"""Automata over words: token sets, budgets, forced runs, ends, errors and caches."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Mapping

import numpy as np
import pytest

from steelyard.constraints.automaton import NO_END, Automaton, LruCache, WordConstraint
from steelyard.constraints.base import Constraint, Walk, members, unpack
from steelyard.errors import ConstraintError
from steelyard.types import Task
from tests.automata import TASK, Table, samples

WORDS = ("<end>", "a", "b", "c", "d")
END, A, B, C, D = range(5)

# 0 -a-> 1 -b-> 2 -c-> 3 (end); 0 -d-> 3; 1 -d-> 4, a trap; 2 -a-> 2
FORK = {0: {"a": 1, "d": 3}, 1: {"b": 2, "d": 4}, 2: {"c": 3, "a": 2}, 4: {"a": 4}}


def fork(**options: int) -> WordConstraint[int]:
    return WordConstraint(Table(FORK, [3]), WORDS, END, **options)


def allowed(walk: Walk, left: int) -> list[int]:
    return members(walk.allowed(left)).tolist()


def test_it_implements_constraint_and_walk() -> None:
    constraint = fork()
    assert isinstance(constraint, Constraint)
    assert isinstance(constraint.begin(TASK), Walk)
    assert (constraint.vocabulary, constraint.canonical_tokens) == (5, False)


def test_a_token_is_allowed_if_the_end_still_fits_after_it() -> None:
    walk = fork().begin(TASK)
    assert [allowed(walk, left) for left in range(6)] == [[], [], [D], [D], [A, D], [A, D]]
    walk.advance(A)
    assert walk.shortest_end() == 3
    assert [allowed(walk, left) for left in (2, 3, 100)] == [[], [B], [B]], "d leads into the trap"
    walk.advance(B)
    assert [allowed(walk, left) for left in (1, 2, 3)] == [[], [C], [A, C]]


def test_the_end_token_is_allowed_where_a_sample_may_end_and_nothing_after_it() -> None:
    walk = fork().begin(TASK)
    walk.advance(D)
    assert walk.may_end()
    assert walk.shortest_end() == 1
    assert [allowed(walk, left) for left in (0, 1, 9)] == [[], [END], [END]]
    walk.advance(END)
    assert (walk.may_end(), walk.shortest_end(), allowed(walk, 9), walk.forced(9)) == (False, 0, [], [])
    for token in (END, A):
        with pytest.raises(ConstraintError, match="after the end token"):
            walk.advance(token)


@pytest.mark.parametrize(
    ("token", "message"), [(END, "the end token is not allowed"), (B, r"token 2 \('b'\) is not allowed"), (77, "77")]
)
def test_a_disallowed_token_is_rejected_and_changes_nothing(token: int, message: str) -> None:
    walk = fork().begin(TASK)
    with pytest.raises(ConstraintError, match=message):
        walk.advance(token)
    assert (walk.state, walk.ended) == (0, False)


def test_a_move_into_a_trap_is_rejected() -> None:
    walk = fork().begin(TASK)
    walk.advance(A)
    with pytest.raises(ConstraintError, match=r"'d'.*state 1"):
        walk.advance(D)


def test_a_state_without_moves_or_end_allows_nothing() -> None:
    walk = fork().begin(TASK)
    walk.state = 9
    assert [allowed(walk, left) for left in (0, 1, 99)] == [[], [], []]
    assert walk.forced(99) == []


def test_forced_follows_single_choices_to_the_end_token() -> None:
    constraint = fork()
    walk = constraint.begin(TASK)
    assert walk.forced(9) == [], "a or d"
    assert walk.forced(3) == [D, END], "only d is short enough"
    walk.advance(A)
    assert walk.forced(9) == [B], "then a or c"
    assert walk.forced(3) == [B, C, END]
    assert walk.forced(0) == []
    assert walk.state == 1, "looking ahead does not move"


def test_forced_returns_at_most_the_remaining_tokens() -> None:
    line = Table({place: {"a": place + 1} for place in range(50)}, [0, 50])
    walk = WordConstraint(line, WORDS, END).begin(TASK)
    assert walk.forced(4) == [END], "the other end is too far"
    walk.advance(A)
    assert walk.forced(50) == [A] * 49 + [END]


def test_copies_are_independent() -> None:
    walk = fork().begin(TASK)
    copy = walk.copy()
    copy.advance(A)
    assert (walk.state, copy.state, walk.shortest_end(), copy.shortest_end()) == (0, 1, 2, 3)
    ended = walk.copy()
    ended.advance(D)
    ended.advance(END)
    assert (walk.ended, ended.ended, ended.copy().ended) == (False, True, True)


def test_sets_are_packed_and_cannot_be_written_to() -> None:
    walk = fork(vocabulary=19).begin(TASK)
    bits = walk.allowed(9)
    assert (bits.dtype, bits.shape) == (np.uint8, (3,))
    assert np.flatnonzero(unpack(bits, 19)).tolist() == [A, D]
    for reused in (bits, walk.allowed(0)):
        with pytest.raises(ValueError, match="read-only"):
            reused[0] = 255


def test_words_can_be_mapped_to_tokens() -> None:
    constraint = WordConstraint(Table({0: {"a": 1}}, [1]), {"a": 6, "b": 2}, 3, vocabulary=8)
    assert set(samples(constraint, 9)) == {(6,)}
    assert WordConstraint(Table({}, [0]), {"a": 6, "b": 2}, 3).vocabulary == 7


@pytest.mark.parametrize(
    ("words", "end_id", "vocabulary", "message"),
    [
        (("a", "a"), 0, None, "duplicates"),
        ({"a": 1, "b": 1}, 0, None, "duplicates"),
        (("a", "b"), 2, 2, "end_id = 2 is not in the vocabulary of 2"),
        (("a", "b"), -1, None, "end_id = -1"),
        ({"a": 5}, 0, 3, "'a' is not in the vocabulary of 3"),
    ],
)
def test_vocabularies_that_do_not_fit(words: object, end_id: int, vocabulary: int | None, message: str) -> None:
    with pytest.raises(ConstraintError, match=message):
        WordConstraint(Table({}, [0]), words, end_id, vocabulary=vocabulary)


def test_an_unknown_symbol_is_named_when_it_occurs() -> None:
    walk = WordConstraint(Table({0: {"zebra": 1, "<end>": 1}}, [1]), WORDS, END).begin(TASK)
    with pytest.raises(ConstraintError, match=r"Table uses the symbol 'zebra'.*add it to the vocabulary"):
        walk.allowed(5)
    walk = WordConstraint(Table({0: {"<end>": 1}}, [1]), WORDS, END).begin(TASK)
    with pytest.raises(ConstraintError, match=r"'<end>'.*may_end"):
        walk.allowed(5)


def test_a_listed_alphabet_is_checked_immediately() -> None:
    class Listed(Table):
        def alphabet(self) -> tuple[str, ...]:
            return "a", "zebra"

    with pytest.raises(ConstraintError, match="zebra"):
        WordConstraint(Listed({}, [0]), WORDS, END)


def test_the_search_finds_the_shortest_end_of_every_state() -> None:
    table = Table(FORK, [3])
    assert [table.shortest_end(state) for state in (4, 3, 2, 1, 0)] == [NO_END, 0, 1, 2, 1]
    fresh = Table(FORK, [3])
    assert [fresh.shortest_end(state) for state in range(5)] == [1, 2, 1, 0, NO_END]


class Counter(Automaton[int]):
    """Counts up forever; it may end at multiples of a thousand."""

    def start(self, task: Task) -> int:
        return task.spec.get("start", 1)

    def moves(self, state: int) -> Mapping[str, int]:
        return {"a": state + 1}

    def may_end(self, state: int) -> bool:
        return state % 1_000 == 0


def test_a_failed_search_suggests_a_solution() -> None:
    counter = Counter()
    assert counter.shortest_end(1) == 999
    counter.search_limit = 500
    with pytest.raises(ConstraintError, match=r"Counter.*500 states of 1001; override shortest_end"):
        counter.shortest_end(1_001)


def test_one_search_stores_all_states_on_its_path() -> None:
    counter = Counter()
    counter.shortest_end(1)
    counter.search_limit = 0  # any further search would fail
    assert [counter.shortest_end(state) for state in (1, 500, 999, 1_000)] == [999, 500, 1, 0]


def test_the_budget_error_has_both_numbers_and_a_solution() -> None:
    constraint = WordConstraint(Counter(), WORDS, END)
    task = Task("far", "", {"start": 995})
    constraint.check_budget(task, 6)
    with pytest.raises(ConstraintError, match=r"'far' takes 6 tokens.*limit of 5; raise sampling.max_new_tokens to 6"):
        constraint.check_budget(task, 5)


def test_a_task_without_an_end_is_rejected() -> None:
    trap = WordConstraint(Table({0: {"a": 0}}, []), WORDS, END)
    with pytest.raises(ConstraintError, match="no sample for task 't' can ever end"):
        trap.begin(TASK)
    with pytest.raises(ConstraintError, match="no sample for task 't' can ever end"):
        trap.check_budget(TASK, 99)


def test_stretch_skips_successors_only_far_from_the_limit() -> None:
    asked: list[int] = []

    class Steps(Counter):
        stretch = 0

        def shortest_end(self, state: int) -> int:
            asked.append(state)
            return -state % 1_000

    walk = WordConstraint(Steps(), WORDS, END).begin(Task("t", "", {"start": 990}))
    asked.clear()
    assert allowed(walk, 12) == [A]
    assert asked == [990]
    assert allowed(walk, 11) == [A]
    assert asked == [990, 990, 991]
    assert allowed(walk, 10) == []


@pytest.mark.parametrize("stretch", [None, 2, 50])
def test_stretch_does_not_change_sets(stretch: int | None) -> None:
    class Ladder(Automaton[int]):
        """Each step up moves the end one or two steps further away."""

        def start(self, task: Task) -> int:
            return 1

        def moves(self, state: int) -> Mapping[str, int]:
            return {"a": state + 2, "b": state + 1, "c": state - 1} if state else {}

        def may_end(self, state: int) -> bool:
            return state == 0

        def shortest_end(self, state: int) -> int:
            return state

    ladder = Ladder()
    ladder.stretch = stretch
    walk = WordConstraint(ladder, WORDS, END).begin(TASK)
    for state, left in itertools.product(range(5), range(12)):
        walk.state = state
        after = {"a": state + 2, "b": state + 1, "c": state - 1} if state else {}
        expected = [WORDS.index(word) for word, end in after.items() if end + 1 <= left - 1]
        assert allowed(walk, left) == (expected if state else [END] * (left > 0))


def test_the_cache_is_bounded_and_evicted_results_are_recomputed() -> None:
    constraint = WordConstraint(Counter(), WORDS, END, remembered=3)
    for _, start in itertools.product(range(2), range(990, 1_000)):
        walk = constraint.begin(Task("t", "", {"start": start}))
        assert walk.forced(50) == [A] * (1_000 - start) + [END]
        assert allowed(walk, 1_000 - start) == []
        assert allowed(walk, 1_001 - start) == [A]
    assert max(len(constraint._exact), len(constraint._moves)) == 3


def test_the_least_recently_used_entry_is_evicted_first() -> None:
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return key * 2

    memo: LruCache[str, str] = LruCache(2)
    assert [memo.get(key, make) for key in "abacab"] == ["aa", "bb", "aa", "cc", "aa", "bb"]
    assert made == ["a", "b", "c", "b"]
    assert len(pickle.loads(pickle.dumps(memo))) == 0


def test_a_constraint_survives_pickling() -> None:
    constraint = fork()
    assert set(samples(constraint, 4)) == {(D,), (A, B, C)}
    assert set(samples(pickle.loads(pickle.dumps(constraint)), 4)) == {(D,), (A, B, C)}


class Counted(Automaton[tuple[int, int]]):
    """Accepts three letters, counts calls of ``moves``, and has a state component that nothing depends on."""

    stretch = 0

    def __init__(self) -> None:
        self.asked = 0

    def start(self, task: Task) -> tuple[int, int]:
        return 3, 0

    def moves(self, state: tuple[int, int]) -> Mapping[str, tuple[int, int]]:
        self.asked += 1
        left, seen = state
        return {"a": (left - 1, 2 * seen), "b": (left - 1, 2 * seen + 1)} if left else {}

    def may_end(self, state: tuple[int, int]) -> bool:
        return not state[0]

    def shortest_end(self, state: tuple[int, int]) -> int:
        return state[0]


class Viewed(Counted):
    def view(self, state: tuple[int, int]) -> int:
        return state[0]


def test_states_of_one_view_share_their_sets() -> None:
    plain, viewed = (WordConstraint(kind(), ("<end>", "a", "b"), 0) for kind in (Counted, Viewed))
    found = [list(samples(constraint, 4)) for constraint in (plain, viewed)]
    assert found[0] == found[1]
    assert len(found[0]) == 8
    walks = [viewed.begin(TASK) for _ in range(2)]
    for walk, token in zip(walks, (1, 2), strict=True):
        walk.advance(token)
    assert walks[0].state != walks[1].state
    assert walks[0].allowed(9) is walks[1].allowed(9)
    assert len(viewed._far) + len(viewed._exact) < len(plain._far) + len(plain._exact)
