"""The grammar of theories, as an automaton over the theory built so far.

Read it block by block: ``_gauge``, ``_vevs``, ``_multiplets`` and ``_interactions`` say which words may come between
two pieces, ``pieces.slots`` what a vacuum expectation value or a multiplet is made of. A term may begin only if the
fields allow one that was not said yet, and each of its legs only if such a term goes on with it: what comes out is
gauge-invariant, and there is no way into a dead end.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from steelyard.constraints.automaton import Automaton, Memo
from steelyard.domains.theories.grammar.allowed_terms import Multiplet
from steelyard.domains.theories.grammar.states import Content, Given, Saying, State, Ways, slots
from steelyard.domains.theories.grammar.vocabulary import (
    ABELIAN,
    FERMION,
    GAUGE,
    HANDS,
    INTERACTIONS,
    LEGS,
    MULTIPLETS,
    SCALAR,
    SSB,
    Wording,
    group_word,
)
from steelyard.domains.theories.groups.representation import cached
from steelyard.domains.theories.model.limits import Limits
from steelyard.errors import ConstraintError
from steelyard.types import Task


@dataclass(frozen=True)
class TheoryGrammar(Automaton[State]):
    """Every theory within the limits that has a gauge group and a fermion, and no term twice.

    ``task.spec["given"]`` is the beginning of the text, whole pieces; at least one fermion has to come after it.
    ``task.spec["terms"]`` are terms that have to come first among the interactions.
    """

    limits: Limits = field(default_factory=Limits)

    @cached_property
    def longest_piece(self) -> int:
        """Words of the longest piece that can be begun."""
        factors = (1,) * self.limits.groups
        return max(len(slots(factors, SSB, SCALAR)), len(slots(factors, MULTIPLETS, FERMION)), max(LEGS.values()) + 2)

    @property
    def stretch(self) -> int:  # type: ignore[override]
        """A word that begins a piece makes the way to an end longer by what the piece has besides."""
        return self.longest_piece - 1

    @cached_property
    def wording(self) -> Wording:
        return Wording(self.limits)

    def alphabet(self) -> tuple[str, ...]:
        return self.wording.vocabulary

    def start(self, task: Task) -> State:
        given = str(task.spec.get("given") or GAUGE), str(task.spec.get("terms") or "")
        return self._starts.get(given, lambda given: self._start(*given))

    @cached_property
    def _starts(self) -> Memo[tuple[str, str], State]:
        return Memo(1024)

    def moves(self, state: State) -> Mapping[str, State]:
        return Ways(self.words(state), lambda word: self.after(state, word))

    def may_end(self, state: State) -> bool:
        return isinstance(state, Saying) and state.block == INTERACTIONS and not state.said and not state.owed

    def shortest_end(self, state: State) -> int:
        """Finish the piece, then the blocks that are left with nothing in them but what has to come."""
        if isinstance(state, Given):
            return len(state.words) + self.shortest_end(state.then)
        content, block, said, _, lacks_fermion, owed, _ = state
        if block == INTERACTIONS:
            return len(owed) or (LEGS[said[0]] + 2 - len(said) if said else 0)
        end = INTERACTIONS_AND_BEFORE[block] + len(owed)
        if said:
            end += len(slots(content.factors, block, said[0][0])) - len(said)
            lacks_fermion = lacks_fermion and said[0][0] == SCALAR
        elif not content.factors:
            end += 1
        return end + lacks_fermion * (max(len(content.factors), 1) + 3)

    # --- what may come ------------------------------------------------------------------------------------------------

    def view(self, state: State) -> Hashable:
        """The block, where in its piece a text is, and what that leaves room for."""
        return state.view if isinstance(state, Saying) else (state.words[0], self.shortest_end(state))

    def _seen(self, state: Saying) -> Saying:
        """A state with its view, which is made once."""
        return state._replace(view=self._view(state))

    def _view(self, state: Saying) -> tuple[Any, ...]:
        content, block, said, _, lacks_fermion, owed, _ = state
        if block == INTERACTIONS:
            return INTERACTIONS, said[:1], len(said), len(owed), self._interactions(state)
        rest = (len(content.factors), lacks_fermion, len(owed))
        if block == GAUGE:
            return GAUGE, content.factors, rest
        if not said:
            return block, content.fermions, content.scalars, rest
        slot = slots(content.factors, block, said[0][0])[len(said)]
        return block, said[0][0], len(said), slot, self._room(content.factors, block, said), rest

    def words(self, state: State) -> tuple[str, ...]:
        """The words that may come."""
        if isinstance(state, Given):
            return state.words[:1]
        if state.block == INTERACTIONS:
            *_, words = state.view
            return words
        found = self._known.get(state.view)
        if found is None:
            found = self._known[state.view] = tuple(self._words(state))
        return found

    @cached_property
    def _known(self) -> dict[Hashable, tuple[str, ...]]:
        return {}

    def _words(self, state: Saying) -> Iterator[str]:
        content, block, said = state.content, state.block, state.said
        if said:
            slot, n = slots(content.factors, block, said[0][0])[len(said)]
            return self._part(slot, n, self._room(content.factors, block, said))
        if block == GAUGE:
            return self._gauge(content.factors)
        return (self._vevs if block == SSB else self._multiplets)(content, state.lacks_fermion)

    def _gauge(self, factors: tuple[int, ...]) -> Iterator[str]:
        """U(1) factors, then SU(n) from the smallest on."""
        last = factors[-1] if factors else 1
        if len(factors) < self.limits.groups:
            if last == 1 and len(factors) < self.limits.abelian:
                yield ABELIAN
            yield from (group_word(n) for n in self.wording.labels if n >= last)
        if factors:
            yield SSB

    def _vevs(self, content: Content, lacks_fermion: bool) -> Iterator[str]:
        if content.scalars < self.limits.vevs and self._has_room_for_scalar(content, lacks_fermion):
            yield f"{SCALAR}{content.scalars + 1}"
        yield MULTIPLETS

    def _multiplets(self, content: Content, lacks_fermion: bool) -> Iterator[str]:
        if len(content.fields) < self.limits.multiplets:
            yield f"{FERMION}{content.fermions + 1}"
        if self._has_room_for_scalar(content, lacks_fermion):
            yield f"{SCALAR}{content.scalars + 1}"
        if not lacks_fermion:
            yield INTERACTIONS

    def _has_room_for_scalar(self, content: Content, lacks_fermion: bool) -> bool:
        """A place is kept for the fermion that has to come."""
        most = self.limits.multiplets - lacks_fermion
        return content.scalars < len(self.wording.scalars) and len(content.fields) < most

    def _part(self, slot: str, n: int, room: int) -> Iterator[str]:
        """The words for a part of a vacuum expectation value or a multiplet."""
        wording = self.wording
        if slot == "representation":
            return (word for word, label in wording.labels[n].items() if cached(n, label).dimension <= room)
        if slot == "component":
            return iter(list(wording.components)[:room])
        tables = {"hand": HANDS, "charge": wording.charges, "generations": wording.generations}
        return iter(tables.get(slot) or wording.numbers[slot])

    def _room(self, factors: tuple[int, ...], block: str, said: tuple[str, ...]) -> int:
        """How large the next representation may be, or how many components there are."""
        parts = slots(factors, block, said[0][0])
        here = parts[len(said)].name
        if here not in ("representation", "component"):
            return 0
        states = 1
        for word, (slot, n) in zip(said, parts, strict=False):
            if slot == "representation":
                states *= cached(n, self.wording.labels[n][word]).dimension
        most = min(self.limits.states, self.limits.components) if block == SSB else self.limits.states
        return states if here == "component" else most // states

    def _interactions(self, state: Saying) -> tuple[str, ...]:
        """Kinds and legs of terms that were not said yet, then the parameter."""
        said = state.said
        if state.owed:
            return state.owed[:1]
        if said and len(said) > LEGS[said[0]]:
            return tuple(self.wording.numbers[said[0]])
        if len(state.terms) >= self.limits.terms:
            return ()
        node = state.content.terms
        for word in said:
            node = node.after[word]
        used: dict[str, int] = {}
        for term in state.terms:
            if term[: len(said)] == said:
                used[term[len(said)]] = used.get(term[len(said)], 0) + 1
        return tuple(word for word, after in node.after.items() if after.count > used.get(word, 0))

    # --- where it leads -----------------------------------------------------------------------------------------------

    def after(self, state: State, word: str) -> State:
        """Where a word leads that may come."""
        if isinstance(state, Given):
            return Given(state.words[1:], state.then) if len(state.words) > 1 else state.then
        return self._seen(self._after(state, word))

    def _after(self, state: Saying, word: str) -> Saying:
        content, block, said = state.content, state.block, (*state.said, word)
        if block == INTERACTIONS:
            state = state._replace(owed=state.owed[1:])
            if len(said) < LEGS[said[0]] + 2:
                return state._replace(said=said)
            return state._replace(said=(), terms=(*state.terms, said[:-1]))
        if word in INTERACTIONS_AND_BEFORE:
            return state._replace(block=word)
        if block == GAUGE:
            return state._replace(content=Content((*content.factors, self.wording.groups[word])))
        if len(said) < len(slots(content.factors, block, said[0][0])):
            return state._replace(said=said)
        built = self._built(content.factors, said)
        lacks_fermion = state.lacks_fermion and built.kind == "scalar"
        grown = Content(content.factors, (*content.fields, built))
        return state._replace(content=grown, said=(), lacks_fermion=lacks_fermion)

    def _built(self, factors: tuple[int, ...], said: tuple[str, ...]) -> Multiplet:
        fermion = said[0][0] == FERMION
        words = said[2:] if fermion else said[1:]
        special = [n for n in factors if n > 1]
        labels = tuple(self.wording.labels[n][word] for n, word in zip(special, words, strict=False))
        sixths = tuple(self.wording.charges[word] for word in words[len(special) : len(factors)])
        if not fermion:
            return Multiplet("scalar", labels, sixths)
        return Multiplet("left" if said[1] == HANDS[0] else "right", labels, sixths, self.wording.generations[said[-1]])

    # --- where it begins ----------------------------------------------------------------------------------------------

    def _start(self, given: str, terms: str) -> State:
        words = tuple(given.split())
        state = self._seen(Saying(block=GAUGE))
        if words[:1] != (GAUGE,):
            raise ConstraintError(f"a theory begins with {GAUGE!r}, but what is given with {given[:40]!r}")
        state = self._followed(state, words[1:])
        if state.said or state.block == INTERACTIONS or len(state.content.fields) >= self.limits.multiplets:
            raise ConstraintError(
                f"what is given, {given[-40:]!r} at its end, must leave off between two pieces, before "
                f"{INTERACTIONS}, with room for a fermion"
            )
        if self._followed(self._seen(state._replace(block=INTERACTIONS)), terms.split()).said:
            raise ConstraintError(f"the terms that are given leave off within one: {terms[-40:]!r}")
        return Given(words, self._seen(state._replace(lacks_fermion=True, owed=tuple(terms.split()))))

    def _followed(self, state: Saying, words: tuple[str, ...] | list[str]) -> Saying:
        for word in words:
            if word not in self.words(state):
                raise ConstraintError(f"what is given has {word!r}, where one of {self.words(state)[:9]} may come")
            state = self._seen(self._after(state, word))
        return state


INTERACTIONS_AND_BEFORE = {INTERACTIONS: 0, MULTIPLETS: 1, SSB: 2, GAUGE: 3}
"""How many blocks are still to be opened."""
