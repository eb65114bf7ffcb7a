"""The grammar of theories, as an automaton over the theory written so far.

The methods ``_gauge``, ``_vevs``, ``_multiplets`` and ``_interactions`` return the words allowed between two entries of
their block. The function ``states.slots`` defines the words of a vacuum expectation value or a multiplet. A term or leg
is allowed only if it leads to an allowed term that is not yet in the text. Every complete text is therefore
gauge-invariant, and there are no dead ends.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from steelyard.constraints.automaton import Automaton, LruCache
from steelyard.domains.theories.grammar.allowed_terms import Multiplet
from steelyard.domains.theories.grammar.states import FieldContent, GivenPrefix, LazySuccessors, State, TextState, slots
from steelyard.domains.theories.grammar.vocabulary import (
    ABELIAN,
    FERMION,
    GAUGE,
    HANDS,
    INTERACTIONS,
    LEG_COUNT,
    MULTIPLETS,
    SCALAR,
    SSB,
    Vocabulary,
    group_word,
)
from steelyard.domains.theories.groups.representation import cached
from steelyard.domains.theories.model.limits import Limits
from steelyard.errors import ConstraintError
from steelyard.types import Task


@dataclass(frozen=True)
class TheoryGrammar(Automaton[State]):
    """Accepts every theory within the limits that has a gauge group, a fermion and no duplicate terms.

    ``task.spec["given"]`` is a prefix of the text that ends between two entries. At least one fermion must follow this
    prefix. ``task.spec["terms"]`` lists the terms that must come first among the interactions.
    """

    limits: Limits = field(default_factory=Limits)

    @cached_property
    def longest_entry(self) -> int:
        """Number of words of the longest possible entry."""
        factors = (1,) * self.limits.groups
        return max(
            len(slots(factors, SSB, SCALAR)), len(slots(factors, MULTIPLETS, FERMION)), max(LEG_COUNT.values()) + 2
        )

    @property
    def stretch(self) -> int:  # type: ignore[override]
        """After the first word of an entry, the shortest ending also includes the rest of the entry."""
        return self.longest_entry - 1

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.limits)

    def alphabet(self) -> tuple[str, ...]:
        return self.vocabulary.words

    def start(self, task: Task) -> State:
        given = str(task.spec.get("given") or GAUGE), str(task.spec.get("terms") or "")
        return self._starts.get(given, lambda given: self._start(*given))

    @cached_property
    def _starts(self) -> LruCache[tuple[str, str], State]:
        return LruCache(1024)

    def moves(self, state: State) -> Mapping[str, State]:
        return LazySuccessors(self.words(state), lambda word: self.after(state, word))

    def may_end(self, state: State) -> bool:
        return isinstance(state, TextState) and state.block == INTERACTIONS and not state.entry and not state.forced

    def shortest_end(self, state: State) -> int:
        """Return the number of words needed to finish the entry and close all blocks, including required words."""
        if isinstance(state, GivenPrefix):
            return len(state.words) + self.shortest_end(state.next_state)
        content, block, entry, _, needs_fermion, forced, _ = state
        if block == INTERACTIONS:
            return len(forced) or (LEG_COUNT[entry[0]] + 2 - len(entry) if entry else 0)
        end = BLOCKS_LEFT[block] + len(forced)
        if entry:
            end += len(slots(content.factors, block, entry[0][0])) - len(entry)
            needs_fermion = needs_fermion and entry[0][0] == SCALAR
        elif not content.factors:
            end += 1
        return end + needs_fermion * (max(len(content.factors), 1) + 3)

    # --- allowed words ------------------------------------------------------------------------------------------------

    def view(self, state: State) -> Hashable:
        """Return the block, the position in the entry and the remaining room, which determine the allowed words."""
        return state.view if isinstance(state, TextState) else (state.words[0], self.shortest_end(state))

    def _with_view(self, state: TextState) -> TextState:
        """Return the state with its ``view`` filled in."""
        return state._replace(view=self._view(state))

    def _view(self, state: TextState) -> tuple[Any, ...]:
        content, block, entry, _, needs_fermion, forced, _ = state
        if block == INTERACTIONS:
            return INTERACTIONS, entry[:1], len(entry), len(forced), self._interactions(state)
        rest = (len(content.factors), needs_fermion, len(forced))
        if block == GAUGE:
            return GAUGE, content.factors, rest
        if not entry:
            return block, content.fermions, content.scalars, rest
        slot = slots(content.factors, block, entry[0][0])[len(entry)]
        return block, entry[0][0], len(entry), slot, self._room(content.factors, block, entry), rest

    def words(self, state: State) -> tuple[str, ...]:
        """Return the allowed words."""
        if isinstance(state, GivenPrefix):
            return state.words[:1]
        if state.block == INTERACTIONS:
            *_, words = state.view
            return words
        found = self._word_cache.get(state.view)
        if found is None:
            found = self._word_cache[state.view] = tuple(self._words(state))
        return found

    @cached_property
    def _word_cache(self) -> dict[Hashable, tuple[str, ...]]:
        return {}

    def _words(self, state: TextState) -> Iterator[str]:
        content, block, entry = state.content, state.block, state.entry
        if entry:
            slot, n = slots(content.factors, block, entry[0][0])[len(entry)]
            return self._slot_words(slot, n, self._room(content.factors, block, entry))
        if block == GAUGE:
            return self._gauge(content.factors)
        return (self._vevs if block == SSB else self._multiplets)(content, state.needs_fermion)

    def _gauge(self, factors: tuple[int, ...]) -> Iterator[str]:
        """Yield gauge factors: U(1) first, then SU(n) in ascending order."""
        last = factors[-1] if factors else 1
        if len(factors) < self.limits.groups:
            if last == 1 and len(factors) < self.limits.abelian:
                yield ABELIAN
            yield from (group_word(n) for n in self.vocabulary.labels if n >= last)
        if factors:
            yield SSB

    def _vevs(self, content: FieldContent, needs_fermion: bool) -> Iterator[str]:
        if content.scalars < self.limits.vevs and self._has_room_for_scalar(content, needs_fermion):
            yield f"{SCALAR}{content.scalars + 1}"
        yield MULTIPLETS

    def _multiplets(self, content: FieldContent, needs_fermion: bool) -> Iterator[str]:
        if len(content.fields) < self.limits.multiplets:
            yield f"{FERMION}{content.fermions + 1}"
        if self._has_room_for_scalar(content, needs_fermion):
            yield f"{SCALAR}{content.scalars + 1}"
        if not needs_fermion:
            yield INTERACTIONS

    def _has_room_for_scalar(self, content: FieldContent, needs_fermion: bool) -> bool:
        """Return whether another scalar fits. One multiplet is reserved for a required fermion."""
        most = self.limits.multiplets - needs_fermion
        return content.scalars < len(self.vocabulary.scalars) and len(content.fields) < most

    def _slot_words(self, slot: str, n: int, room: int) -> Iterator[str]:
        """Yield the words for one slot of a vacuum expectation value or multiplet."""
        vocabulary = self.vocabulary
        if slot == "representation":
            return (word for word, label in vocabulary.labels[n].items() if cached(n, label).dimension <= room)
        if slot == "component":
            return iter(list(vocabulary.components)[:room])
        tables = {"hand": HANDS, "charge": vocabulary.charges, "generations": vocabulary.generations}
        return iter(tables.get(slot) or vocabulary.numbers[slot])

    def _room(self, factors: tuple[int, ...], block: str, entry: tuple[str, ...]) -> int:
        """Return the largest allowed dimension of the next representation, or the number of components."""
        entry_slots = slots(factors, block, entry[0][0])
        current = entry_slots[len(entry)].name
        if current not in ("representation", "component"):
            return 0
        states = 1
        for word, (slot, n) in zip(entry, entry_slots, strict=False):
            if slot == "representation":
                states *= cached(n, self.vocabulary.labels[n][word]).dimension
        limit = min(self.limits.states, self.limits.components) if block == SSB else self.limits.states
        return states if current == "component" else limit // states

    def _interactions(self, state: TextState) -> tuple[str, ...]:
        """Return the next words of an unused term: its kind, its legs, then its parameter."""
        entry = state.entry
        if state.forced:
            return state.forced[:1]
        if entry and len(entry) > LEG_COUNT[entry[0]]:
            return tuple(self.vocabulary.numbers[entry[0]])
        if len(state.terms) >= self.limits.terms:
            return ()
        node = state.content.terms
        for word in entry:
            node = node.children[word]
        used: dict[str, int] = {}
        for term in state.terms:
            if term[: len(entry)] == entry:
                used[term[len(entry)]] = used.get(term[len(entry)], 0) + 1
        return tuple(word for word, child in node.children.items() if child.count > used.get(word, 0))

    # --- transitions --------------------------------------------------------------------------------------------------

    def after(self, state: State, word: str) -> State:
        """Return the state after an allowed word."""
        if isinstance(state, GivenPrefix):
            return GivenPrefix(state.words[1:], state.next_state) if len(state.words) > 1 else state.next_state
        return self._with_view(self._after(state, word))

    def _after(self, state: TextState, word: str) -> TextState:
        content, block, entry = state.content, state.block, (*state.entry, word)
        if block == INTERACTIONS:
            state = state._replace(forced=state.forced[1:])
            if len(entry) < LEG_COUNT[entry[0]] + 2:
                return state._replace(entry=entry)
            return state._replace(entry=(), terms=(*state.terms, entry[:-1]))
        if word in BLOCKS_LEFT:
            return state._replace(block=word)
        if block == GAUGE:
            return state._replace(content=FieldContent((*content.factors, self.vocabulary.groups[word])))
        if len(entry) < len(slots(content.factors, block, entry[0][0])):
            return state._replace(entry=entry)
        multiplet = self._multiplet(content.factors, entry)
        needs_fermion = state.needs_fermion and multiplet.kind == "scalar"
        extended = FieldContent(content.factors, (*content.fields, multiplet))
        return state._replace(content=extended, entry=(), needs_fermion=needs_fermion)

    def _multiplet(self, factors: tuple[int, ...], entry: tuple[str, ...]) -> Multiplet:
        fermion = entry[0][0] == FERMION
        words = entry[2:] if fermion else entry[1:]
        special = [n for n in factors if n > 1]
        labels = tuple(self.vocabulary.labels[n][word] for n, word in zip(special, words, strict=False))
        sixths = tuple(self.vocabulary.charges[word] for word in words[len(special) : len(factors)])
        if not fermion:
            return Multiplet("scalar", labels, sixths)
        return Multiplet(
            "left" if entry[1] == HANDS[0] else "right", labels, sixths, self.vocabulary.generations[entry[-1]]
        )

    # --- start states -------------------------------------------------------------------------------------------------

    def _start(self, given: str, terms: str) -> State:
        words = tuple(given.split())
        state = self._with_view(TextState(block=GAUGE))
        if words[:1] != (GAUGE,):
            raise ConstraintError(f"the given text starts with {given[:40]!r}; it must start with {GAUGE!r}")
        state = self._advanced(state, words[1:])
        if state.entry or state.block == INTERACTIONS or len(state.content.fields) >= self.limits.multiplets:
            raise ConstraintError(
                f"the given text ends with {given[-40:]!r}; it must end between two entries, before {INTERACTIONS}, "
                "and leave room for a fermion"
            )
        if self._advanced(self._with_view(state._replace(block=INTERACTIONS)), terms.split()).entry:
            raise ConstraintError(f"the given terms end with {terms[-40:]!r}, which is an incomplete term; complete it")
        return GivenPrefix(words, self._with_view(state._replace(needs_fermion=True, forced=tuple(terms.split()))))

    def _advanced(self, state: TextState, words: tuple[str, ...] | list[str]) -> TextState:
        for word in words:
            if word not in self.words(state):
                raise ConstraintError(f"the given text has {word!r} where only {self.words(state)[:9]} are allowed")
            state = self._with_view(self._after(state, word))
        return state


BLOCKS_LEFT = {INTERACTIONS: 0, MULTIPLETS: 1, SSB: 2, GAUGE: 3}
"""Number of blocks still to be opened after each block."""
