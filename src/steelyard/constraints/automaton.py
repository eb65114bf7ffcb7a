"""Automata: constraints defined by states and moves over a vocabulary of words.

A domain defines the start state, the moves, and the states in which a sample may end. This module computes the sets of
allowed tokens, keeps an end within reach under any budget, and caches results. See docs/constraint-tutorial.md for an
automaton written from scratch. An automaton over single characters works with any tokenizer: see
``steelyard.constraints.trie``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from steelyard.constraints.base import Bits, pack
from steelyard.errors import ConstraintError
from steelyard.types import Task

State = TypeVar("State", bound=Hashable)
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

NO_END = 2**40
"""The ``shortest_end`` of a state with no reachable end; larger than any budget."""


class LruCache(Generic[Key, Value]):
    """A bounded LRU cache. The cache is not thread-safe."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._kept: OrderedDict[Key, Value] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def __reduce__(self) -> tuple[type[LruCache[Key, Value]], tuple[int]]:
        return type(self), (self.size,)  # an unpickled cache starts empty

    def get(self, key: Key, make: Callable[[Key], Value]) -> Value:
        value = self._kept.get(key)
        if value is None:
            value = make(key)
            self.put(key, value)
        else:
            self._kept.move_to_end(key)
        return value

    def put(self, key: Key, value: Value) -> None:
        self._kept[key] = value
        if len(self._kept) > self.size:
            self._kept.popitem(last=False)


class Automaton(ABC, Generic[State]):
    """Defines the valid samples of a domain through pure functions of a state.

    A state is hashable plain data (not None) that captures everything relevant about the task and the sample so far. A
    symbol is a word of a closed vocabulary or a single character. The automaton does not need to consider the budget:
    the constraint omits moves from which no end can be reached in time.
    """

    stretch: int | None = None
    """The largest increase in ``shortest_end`` that one move can cause, if every move keeps an end reachable.

    If set, a constraint computes the shortest ends of successors only near the end of the budget, otherwise always.
    """

    search_limit: int = 20_000
    """Maximum number of states that the search in ``shortest_end`` visits."""

    def alphabet(self) -> Iterable[str]:
        """Return all symbols if they can be listed. Listed symbols are checked against the vocabulary when a run
        starts; others are checked when they occur.
        """
        return ()

    @abstractmethod
    def start(self, task: Task) -> State: ...

    @abstractmethod
    def moves(self, state: State) -> Mapping[str, State]:
        """Return the successor state of each allowed symbol."""

    @abstractmethod
    def may_end(self, state: State) -> bool: ...

    def view(self, state: State) -> Hashable:
        """Return the part of the state that determines the allowed symbols, their distances to an end, and whether the
        sample may end. Defaults to the complete state. If there are many states but few views, a constraint over words
        caches token sets by view and calls ``moves`` every time, so ``moves`` should return a mapping that creates
        states lazily.
        """
        return state

    def shortest_end(self, state: State) -> int:
        """Return the minimum number of symbols to a state that may end: 0 in such a state, ``NO_END`` if none is
        reachable.

        The default is a breadth-first search, which suits small automata; override it with a formula for large ones.
        """
        return self._ends.get(state, self._search)

    @cached_property
    def _ends(self) -> LruCache[State, int]:
        return LruCache(100_000)

    def _search(self, state: State) -> int:
        came_from: dict[State, State | None] = {state: None}
        level = [state]
        while level:
            for reached in level:
                if self.may_end(reached):
                    return self._store_distances(reached, came_from)
            following: list[State] = []
            for reached in level:
                for successor in self.moves(reached).values():
                    if successor not in came_from:
                        came_from[successor] = reached
                        following.append(successor)
                if len(came_from) > self.search_limit:
                    raise ConstraintError(
                        f"{type(self).__name__}: no end found within {self.search_limit} states of {state!r}; "
                        "override shortest_end with a formula, or raise search_limit"
                    )
            level = following
        for dead in came_from:
            self._ends.put(dead, NO_END)
        return NO_END

    def _store_distances(self, end: State, came_from: Mapping[State, State | None]) -> int:
        """Store the distance of every state on a shortest path and return the distance of the first."""
        distance, back = 0, came_from[end]
        self._ends.put(end, 0)
        while back is not None:
            distance += 1
            self._ends.put(back, distance)
            back = came_from[back]
        return distance


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """The allowed tokens of a state, sorted by cost: the number of tokens needed afterwards, including the end
    token.
    """

    token_N: NDArray[np.int32]
    """The tokens, cheapest first."""
    costs: list[int]
    """The distinct costs, ascending."""
    counts: list[int]
    """``counts[i]`` is the number of tokens with one of the ``i`` lowest costs."""
    vocabulary: int
    sets: dict[int, Bits] = field(default_factory=dict[int, Bits])
    """Cached sets of tokens with one of the ``i`` lowest costs."""

    @staticmethod
    def of(token_N: NDArray[np.int64], cost_N: NDArray[np.int64], vocabulary: int) -> Choices:
        order_N = np.argsort(cost_N, kind="stable")
        cost_N = cost_N[order_N]
        changes = np.flatnonzero(np.diff(cost_N, prepend=-1, append=-2))
        costs: list[int] = cost_N[changes[:-1]].tolist()
        return Choices(token_N[order_N].astype(np.int32), costs, changes.tolist(), vocabulary)

    def within(self, left: int) -> Bits:
        affordable = bisect_right(self.costs, left - 1)
        bits = self.sets.get(affordable)
        if bits is None:
            bits = self.sets[affordable] = pack(self.token_N[: self.counts[affordable]], self.vocabulary)
            bits.flags.writeable = False
        return bits

    def forced(self, left: int) -> int | None:
        """Return the only affordable token, or None if there is a choice."""
        alone = self.counts[bisect_right(self.costs, left - 1)] == 1
        return int(self.token_N[0]) if alone else None


class AutomatonConstraint(ABC, Generic[State]):
    """Applies an automaton to the tokens of a vocabulary; subclasses define how tokens map to symbols."""

    canonical_tokens = False

    def __init__(
        self, automaton: Automaton[State], *, end_id: int, vocabulary: int, longest: int, remembered: int
    ) -> None:
        if not 0 <= end_id < vocabulary:
            raise ConstraintError(
                f"end_id = {end_id} is not in the vocabulary of {vocabulary} tokens; pass the id of one of them"
            )
        self.automaton = automaton
        self.end_id = end_id
        self.vocabulary = vocabulary
        self.name = type(automaton).__name__
        self.empty = pack([], vocabulary)
        self.empty.flags.writeable = False
        self._longest = longest
        self._moves: LruCache[State, Mapping[str, State]] = LruCache(remembered)
        self._exact: LruCache[Hashable, Choices] = LruCache(remembered)
        self._far: LruCache[Hashable, Choices] = LruCache(remembered)

    @abstractmethod
    def step(self, state: State, token: int) -> State | None:
        """Return the state after a token, or None if the token is not allowed."""

    @abstractmethod
    def describe(self, token: int) -> str:
        """Describe a token for an error message."""

    @abstractmethod
    def _reach(self, state: State) -> tuple[NDArray[np.int64], NDArray[np.int64], Sequence[State]]:
        """Return the allowed tokens, the index of each token's successor state, and the successor states."""

    def _tokens(self, state: State) -> NDArray[np.int64]:
        """Return the allowed tokens."""
        return self._reach(state)[0]

    def begin(self, task: Task) -> AutomatonWalk[State]:
        state = self.automaton.start(task)
        if self.automaton.shortest_end(state) >= NO_END:
            raise ConstraintError(
                f"{self.name}: no sample for task {task.id!r} can ever end; remove the task, or change may_end"
            )
        return AutomatonWalk(self, state)

    def check_budget(self, task: Task, tokens: int) -> None:
        needed = self.begin(task).shortest_end()
        if needed > tokens:
            raise ConstraintError(
                f"{self.name}: the shortest sample for task {task.id!r} takes {needed} tokens including its end token, "
                f"more than the limit of {tokens}; raise sampling.max_new_tokens to {needed} or more"
            )

    def moves(self, state: State) -> Mapping[str, State]:
        return self._moves.get(state, self.automaton.moves)

    def choices(self, state: State, left: int) -> Choices:
        """Return the allowed tokens for this budget; costs are not computed while the budget is ample."""
        stretch, view = self.automaton.stretch, self.view(state)
        if stretch is not None and self.automaton.shortest_end(state) + stretch * self._longest + 2 <= left:
            return self._far.get(view, lambda _: self._choices_without_costs(state))
        return self._exact.get(view, lambda _: self._choices(state))

    def view(self, state: State) -> Hashable:
        """Return the part of a state that ``choices`` depends on: all of it if a token may span several symbols."""
        return state

    def can_reach_end(self, state: State) -> bool:
        """Return whether an end is reachable."""
        return self.automaton.stretch is not None or self.automaton.shortest_end(state) < NO_END

    def _choices(self, state: State) -> Choices:
        token_N, which_N, states = self._reach(state)
        end_S = np.fromiter(map(self.automaton.shortest_end, states), np.int64, len(states))
        return self._with_end(state, token_N, end_S[which_N] + 1)

    def _choices_without_costs(self, state: State) -> Choices:
        token_N = self._tokens(state)
        if self.automaton.may_end(state):
            token_N = np.append(token_N, self.end_id)
        return Choices(token_N.astype(np.int32), [0], [0, len(token_N)], self.vocabulary)

    def _with_end(self, state: State, token_N: NDArray[np.int64], cost_N: NDArray[np.int64]) -> Choices:
        if self.automaton.may_end(state):
            token_N, cost_N = np.append(token_N, self.end_id), np.append(cost_N, 0)
        return Choices.of(token_N, cost_N, self.vocabulary)


@dataclass(slots=True)
class AutomatonWalk(Generic[State]):
    """The current state of an automaton for one sample, and whether the sample has ended."""

    constraint: AutomatonConstraint[State]
    state: State
    ended: bool = False
    _found: tuple[int, Choices] | None = None
    """Cached choices for this state and number of remaining tokens."""

    def allowed(self, left: int) -> Bits:
        return self.constraint.empty if self.ended else self._choices(left).within(left)

    def forced(self, left: int) -> list[int]:
        if self.ended or self._choices(left).forced(left) is None:
            return []
        run: list[int] = []
        ahead = self.copy()
        while not ahead.ended and len(run) < left:
            still_left = left - len(run)
            token = self.constraint.choices(ahead.state, still_left).forced(still_left)
            if token is None:
                break
            run.append(token)
            ahead.advance(token)
        return run

    def advance(self, token: int) -> None:
        constraint = self.constraint
        if self.ended:
            raise ConstraintError(f"{constraint.name}: {constraint.describe(token)} is not allowed after the end token")
        if token == constraint.end_id:
            if not constraint.automaton.may_end(self.state):
                raise ConstraintError(
                    f"{constraint.name}: the end token is not allowed in state {self.state!r}; choose one of "
                    "allowed(left)"
                )
            self.ended = True
            return
        state = constraint.step(self.state, token)
        if state is None or not constraint.can_reach_end(state):
            raise ConstraintError(
                f"{constraint.name}: {constraint.describe(token)} is not allowed in state {self.state!r}; "
                "choose one of allowed(left)"
            )
        self.state, self._found = state, None

    def _choices(self, left: int) -> Choices:
        if self._found is None or self._found[0] != left:
            self._found = left, self.constraint.choices(self.state, left)
        return self._found[1]

    def may_end(self) -> bool:
        return not self.ended and self.constraint.automaton.may_end(self.state)

    def shortest_end(self) -> int:
        """Return the minimum number of tokens to an end, or 0 after the end token."""
        return 0 if self.ended else self.constraint.automaton.shortest_end(self.state) + 1

    def copy(self) -> AutomatonWalk[State]:
        return AutomatonWalk(self.constraint, self.state, self.ended)


class WordConstraint(AutomatonConstraint[State]):
    """Applies an automaton to a closed vocabulary: each symbol is a word, and each word is one token."""

    def __init__(
        self,
        automaton: Automaton[State],
        words: Mapping[str, int] | Sequence[str],
        end_id: int,
        *,
        vocabulary: int | None = None,
        remembered: int = 16_384,
    ) -> None:
        """``words`` lists the words in token order, or maps each word to its token."""
        pairs = list(words.items() if isinstance(words, Mapping) else zip(words, range(len(words)), strict=True))
        self._token_of = dict(pairs)
        self._word_of = {token: word for word, token in pairs}
        self._symbols = {word: token for word, token in pairs if token != end_id}
        if not len(pairs) == len(self._token_of) == len(self._word_of):
            raise ConstraintError("words contains duplicates; list each word once, with its own token")
        size = 1 + max([end_id, *self._word_of]) if vocabulary is None else vocabulary
        outside = [word for word, token in pairs if not 0 <= token < size]
        if outside:
            raise ConstraintError(f"the token of {outside[0]!r} is not in the vocabulary of {size} tokens")
        super().__init__(automaton, end_id=end_id, vocabulary=size, longest=1, remembered=remembered)
        for symbol in automaton.alphabet():
            self._token(symbol)

    def moves(self, state: State) -> Mapping[str, State]:
        return super().moves(state) if self.view(state) is state else self.automaton.moves(state)

    def view(self, state: State) -> Hashable:
        return self.automaton.view(state)

    def step(self, state: State, token: int) -> State | None:
        word = self._word_of.get(token)
        return None if word is None else self.moves(state).get(word)

    def describe(self, token: int) -> str:
        return f"token {token} ({self._word_of.get(token, 'no word')!r})"

    def _reach(self, state: State) -> tuple[NDArray[np.int64], NDArray[np.int64], Sequence[State]]:
        moves = self.moves(state)
        return self._tokens(state), np.arange(len(moves)), list(moves.values())

    def _tokens(self, state: State) -> NDArray[np.int64]:
        moves = self.moves(state)
        try:
            return np.fromiter(map(self._symbols.__getitem__, moves), np.int64, len(moves))
        except KeyError as unknown:
            self._token(str(unknown.args[0]))  # raises an error naming the symbol
            raise

    def _token(self, symbol: str) -> int:
        token = self._token_of.get(symbol)
        if token is None:
            raise ConstraintError(
                f"{self.name} uses the symbol {symbol!r}, which is not in the vocabulary; "
                "add it to the vocabulary, or remove it from moves"
            )
        if token == self.end_id:
            raise ConstraintError(
                f"{self.name} uses the symbol {symbol!r}, which is the end token; "
                "remove it from moves, and define in may_end where a sample may end"
            )
        return token
