"""Random walks under any small limits, starting points and budgets end in time and give valid theories."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from benchmarks.theories.theories_walks import accepts, constraint_of
from benchmarks.theories.theory_texts import changed, is_valid_theory_text
from steelyard.domains.theories.grammar.automaton import TheoryGrammar
from steelyard.domains.theories.grammar.starting_points import STARTING_POINTS
from steelyard.domains.theories.model.limits import Limits
from steelyard.errors import ConstraintError
from steelyard.types import Task
from tests.automata import ramble

pytestmark = pytest.mark.property

limits = st.builds(
    Limits,
    groups=st.integers(1, 4),
    abelian=st.integers(1, 3),
    largest=st.integers(1, 5),
    dimension=st.integers(1, 15),
    states=st.integers(1, 30),
    charge=st.integers(0, 12),
    vevs=st.integers(0, 3),
    components=st.integers(1, 10),
    scalars=st.integers(0, 4),
    multiplets=st.integers(1, 8),
    generations=st.integers(1, 4),
    terms=st.integers(0, 5),
    vev=st.just((0, 2)),
    coupling=st.just((-2, 0)),
    mass=st.just((2, 4)),
)


@settings(max_examples=60)
@given(limits, st.sampled_from(sorted(STARTING_POINTS)), st.integers(0, 10_000), st.integers(0, 60))
def test_random_walks_end_in_time_and_give_valid_theories(within: Limits, kind: str, seed: int, spare: int) -> None:
    grammar, rng = TheoryGrammar(within), random.Random(seed)
    starting_point = rng.choice(list(STARTING_POINTS[kind](within)))
    task = Task(starting_point.id, kind, starting_point.spec)
    constraint = constraint_of(grammar)
    try:
        budget = constraint.begin(task).shortest_end() + spare
    except ConstraintError:
        assume(False)
        return
    constraint.check_budget(task, budget)
    tokens = ramble(constraint, budget, rng.choice, task)
    assert len(tokens) <= budget
    text = " ".join(grammar.alphabet()[token - 1] for token in tokens[:-1])
    assert is_valid_theory_text(text, within)
    other = changed(text, grammar.alphabet(), rng)
    assert accepts(other, grammar) == is_valid_theory_text(other, within)
