"""Random theories for the warm start: random walks through the grammar that favour simple choices.

The walks ignore anomalies and masses, so few theories succeed, and only by chance.
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
"""Probability of another gauge factor."""
MORE_VEVS = 0.5
"""Probability of another vacuum expectation value."""
MORE_MULTIPLETS = 0.75
"""Probability of another multiplet."""
SCALAR = 0.2
"""Probability that an added multiplet is a scalar."""
MORE_TERMS = 0.4
"""Probability of another term."""
SINGLET = 0.4
"""Probability that a representation is the singlet."""
DECAY = {"charge": 0.9, "generations": 0.7}
"""Ratio between the probabilities of consecutive words in a slot."""


def random_theory(grammar: TheoryGrammar, task: Task, rng: Rng, *, max_words: int) -> str:
    """Return a random theory text for a task, with at most ``max_words`` words."""
    state, words = grammar.start(task), list[str]()
    while True:
        choices = _words_within_budget(grammar, state, max_words - len(words))
        if not choices or (grammar.may_end(state) and rng.random() > MORE_TERMS):
            return " ".join(words)
        word = choices[int(rng.choice(len(choices), p=probabilities(state, choices)))]
        words.append(word)
        state = grammar.after(state, word)


def probabilities(state: State, words: Sequence[str]) -> np.ndarray:
    """Return the probability of each allowed word."""
    weight_W = np.ones(len(words))
    if isinstance(state, TextState) and state.block != INTERACTIONS and len(words) > 1:
        weight_W = _weights_in_entry(state, words) if state.entry else _weights_between_entries(state, words)
    return weight_W / weight_W.sum()


def _weights_in_entry(state: TextState, words: Sequence[str]) -> np.ndarray:
    """Weight the words of a slot. Simple choices come first: the singlet, charge 0, one generation."""
    slot = slots(state.content.factors, state.block, state.entry[0][0])[len(state.entry)].name
    weight_W = DECAY.get(slot, 1.0) ** np.arange(len(words))
    if slot == "representation":
        weight_W[0] = SINGLET / (1 - SINGLET) * weight_W[1:].sum()
    return weight_W


def _weights_between_entries(state: TextState, words: Sequence[str]) -> np.ndarray:
    """Weight the words between entries. The word that opens the next block always comes last."""
    more = {SSB: MORE_VEVS, MULTIPLETS: MORE_MULTIPLETS}.get(state.block, MORE_GROUPS)
    closes = words[-1] in (SSB, MULTIPLETS, INTERACTIONS)
    continuing = len(words) - closes
    weight_W = np.full(len(words), more / continuing)
    if state.block == MULTIPLETS and continuing == 2:
        weight_W[:2] = more * (1 - SCALAR), more * SCALAR
    if closes:
        weight_W[-1] = 1 - more
    return weight_W


def _words_within_budget(grammar: TheoryGrammar, state: State, left: int) -> Sequence[str]:
    """Return the words that still allow the text to end within ``left`` words, counting the word itself."""
    words = grammar.words(state)
    if grammar.shortest_end(state) + grammar.longest_entry < left:
        return words
    return [word for word in words if grammar.shortest_end(grammar.after(state, word)) < left]
