"""Random theories to begin from: the grammar followed at random, plain things being likelier than others.

Nothing about anomalies or masses goes into them; how many succeed by chance is what a warm start begins from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard.domains.theories.grammar.automaton import TheoryGrammar
from steelyard.domains.theories.grammar.states import State, TextState, slots
from steelyard.domains.theories.grammar.vocabulary import INTERACTIONS, MULTIPLETS, SSB
from steelyard.types import Task

Rng = np.random.Generator

MORE_GROUPS = 0.5
MORE_VEVS = 0.5
MORE_MULTIPLETS = 0.75
SCALAR = 0.2
"""How often a further multiplet is a scalar."""
MORE_TERMS = 0.4
SINGLET = 0.4
"""How often a representation is the singlet."""
DECAY = {"charge": 0.9, "generations": 0.7}
"""Each further one of a table is less likely by this factor."""


def random_theory(grammar: TheoryGrammar, task: Task, rng: Rng, *, long: int) -> str:
    """The text of a theory for a task, of at most ``long`` words."""
    state, words = grammar.start(task), list[str]()
    while True:
        choices = _in_time(grammar, state, long - len(words))
        if not choices or (grammar.may_end(state) and rng.random() > MORE_TERMS):
            return " ".join(words)
        word = choices[int(rng.choice(len(choices), p=probabilities(state, choices)))]
        words.append(word)
        state = grammar.after(state, word)


def probabilities(state: State, words: Sequence[str]) -> np.ndarray:
    """How likely each of the words is that may come."""
    weight_W = np.ones(len(words))
    if isinstance(state, TextState) and state.block != INTERACTIONS and len(words) > 1:
        weight_W = _within_piece(state, words) if state.entry else _between_pieces(state, words)
    return weight_W / weight_W.sum()


def _within_piece(state: TextState, words: Sequence[str]) -> np.ndarray:
    """Tables begin with what is plain: the singlet, no charge, one generation."""
    slot = slots(state.content.factors, state.block, state.entry[0][0])[len(state.entry)].name
    weight_W = DECAY.get(slot, 1.0) ** np.arange(len(words))
    if slot == "representation":
        weight_W[0] = SINGLET / (1 - SINGLET) * weight_W[1:].sum()
    return weight_W


def _between_pieces(state: TextState, words: Sequence[str]) -> np.ndarray:
    """The word that opens the next block is always the last one."""
    on = {SSB: MORE_VEVS, MULTIPLETS: MORE_MULTIPLETS}.get(state.block, MORE_GROUPS)
    closes = words[-1] in (SSB, MULTIPLETS, INTERACTIONS)
    going_on = len(words) - closes
    weight_W = np.full(len(words), on / going_on)
    if state.block == MULTIPLETS and going_on == 2:
        weight_W[:2] = on * (1 - SCALAR), on * SCALAR
    if closes:
        weight_W[-1] = 1 - on
    return weight_W


def _in_time(grammar: TheoryGrammar, state: State, left: int) -> Sequence[str]:
    """The words after which a theory can be ended with so many words, themselves counted."""
    words = grammar.words(state)
    if grammar.shortest_end(state) + grammar.longest_entry < left:
        return words
    return [word for word in words if grammar.shortest_end(grammar.after(state, word)) < left]
