"""The grammar accepts exactly the theories within the limits, for every starting point and budget."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.theories.theories_walks import accepts, constraint_of, walk
from benchmarks.theories.theory_texts import SMALL, every_text, is_valid_theory_text, products
from steelyard.constraints.automaton import WordConstraint
from steelyard.constraints.base import members
from steelyard.domains.theories.grammar.allowed_terms import TermTree, allowed_terms
from steelyard.domains.theories.grammar.automaton import TheoryGrammar
from steelyard.domains.theories.grammar.starting_points import model, standard_model_text
from steelyard.domains.theories.grammar.text import rounded, write
from steelyard.domains.theories.grammar.vocabulary import INTERACTIONS
from steelyard.domains.theories.model.known_models import models
from steelyard.domains.theories.model.limits import Limits
from steelyard.errors import ConstraintError
from steelyard.types import Task
from tests.automata import samples

GRAMMAR = TheoryGrammar()
ANY = Task("any", "nothing")
SM = standard_model_text()
EXTENDED = next(model(Limits()))
EXTENSION = Task("sm", "model", EXTENDED.spec)


def state_after(text: str, task: Task = ANY) -> Any:
    state = GRAMMAR.start(task)
    for word in text.split():
        state = GRAMMAR.moves(state)[word]
    return state


@pytest.mark.parametrize("name", models())
def test_known_models_are_accepted_word_by_word(name: str) -> None:
    text = write(rounded(models()[name]))
    assert accepts(text, GRAMMAR)
    assert is_valid_theory_text(text, GRAMMAR.limits)


def test_within_small_limits_it_lets_through_exactly_what_is_right() -> None:
    constraint = constraint_of(TheoryGrammar(SMALL))
    words = ("<eos>", *TheoryGrammar(SMALL).alphabet())
    found = [" ".join(words[token] for token in tokens) for tokens in samples(constraint, 15)]
    assert len(found) == len(set(found)) > 300
    assert set(found) == every_text(SMALL, 14)


def test_words_that_break_gauge_invariance_are_not_allowed() -> None:
    head = SM.partition(" yukawa ")[0]
    legs = GRAMMAR.words(state_after(f"{head} yukawa F1 F2*"))
    assert legs == ("S1*",)
    assert GRAMMAR.words(state_after(f"{head} yukawa F3 F4*")) == ("S1",)
    assert "mass" not in GRAMMAR.words(state_after(head))


def test_terms_are_not_repeated() -> None:
    before = state_after(SM)
    assert "yukawa" not in GRAMMAR.words(before)
    again = state_after(f"{SM.partition(' yukawa ')[0]} yukawa F3 F4* S1 1e0")
    assert GRAMMAR.words(GRAMMAR.moves(again)["yukawa"]) == ("F1", "F3")
    assert GRAMMAR.words(state_after(f"{SM.partition(' yukawa ')[0]} yukawa F3 F4* S1 1e0 yukawa F3")) == ("F5*",)


def test_vanishing_products_are_not_terms() -> None:
    """ε_ij H_i H_j = 0 for one doublet; a Majorana mass of a pseudoreal multiplet needs two generations."""
    head = "GAUGE SU(2) SSB MULTIPLETS {} INTERACTIONS"
    assert "mass" not in GRAMMAR.words(state_after(head.format("F1 left 2 x1")))
    assert "mass" in GRAMMAR.words(state_after(head.format("F1 left 2 x2")))
    assert "mass" in GRAMMAR.words(state_after(head.format("F1 left 3 x1")))
    assert GRAMMAR.words(state_after(head.format("F1 left 1 x1 S1 2") + " phi2")) == ("S1",)
    assert GRAMMAR.words(state_after(head.format("F1 left 1 x1 S1 2") + " phi2 S1")) == ("S1*",)


HEADS = (
    write(rounded(models()["Pati-Salam"])).partition(" yukawa")[0],
    "GAUGE SU(5) SSB S1 5 c5 2e2 MULTIPLETS F1 left 5* x3 F2 left 10 x3 INTERACTIONS",
    "GAUGE U(1) SU(2) SSB S1 4 +1/2 c1 2e2 MULTIPLETS S2 2 -1/2 F1 left 2 0 x2 F2 right 3 0 x1 INTERACTIONS",
    "GAUGE SU(3) SU(3) SSB MULTIPLETS S1 3 3* S2 8 1 F1 right 6 3 x1 F2 left 3 1 x1 INTERACTIONS",
)


@pytest.mark.parametrize("head", HEADS)
def test_the_term_tree_has_exactly_the_invariant_products(head: str) -> None:
    def terms_of(node: TermTree, words: tuple[str, ...] = ()) -> Iterator[str]:
        if not node.children:
            yield " ".join(words)
        for word, child in node.children.items():
            yield from terms_of(child, (*words, word))

    tree = state_after(head).content.terms
    right = {term for term in products(head, 99) if is_valid_theory_text(f"{head} {term} 1e0", GRAMMAR.limits)}
    assert set(terms_of(tree)) == right
    assert tree.count == len(right) > 3


def test_given_words_are_forced() -> None:
    constraint, rng = constraint_of(GRAMMAR), random.Random(3)
    for _ in range(20):
        text = walk(constraint, EXTENSION, 140, rng)
        assert text is not None
        assert text.startswith(EXTENDED.given)
        assert " F6 " in text
        assert f"{INTERACTIONS} {EXTENDED.terms}" in text
    forced = constraint.begin(EXTENSION).forced(140)
    assert len(forced) == len(EXTENDED.given.split())


def test_a_fermion_must_follow_the_given_words() -> None:
    state = state_after(EXTENDED.given, EXTENSION)
    assert INTERACTIONS not in GRAMMAR.words(state)
    state = state_after(f"{EXTENDED.given} F6 left 1 1 0 x1", EXTENSION)
    assert INTERACTIONS in GRAMMAR.words(state)


def test_a_multiplet_is_reserved_for_the_required_fermion() -> None:
    grammar = TheoryGrammar(Limits(multiplets=7))
    state: Any = grammar.start(EXTENSION)
    for word in EXTENDED.given.split():
        state = grammar.moves(state)[word]
    assert grammar.words(state) == ("F6",)
    with pytest.raises(ConstraintError, match="room for a fermion"):
        TheoryGrammar(Limits(multiplets=6)).start(EXTENSION)


@pytest.mark.parametrize("task", [ANY, EXTENSION, Task("g", "groups", {"given": "GAUGE SU(2) SU(3) SU(3) SSB"})])
def test_the_shortest_end_is_reachable_and_minimal(task: Task) -> None:
    """Every walk ends within the tightest budget, and one word less is rejected."""
    constraint, rng = constraint_of(GRAMMAR), random.Random(1)
    least = constraint.begin(task).shortest_end()
    for spare in (0, 1, 4, 9):
        for _ in range(5):
            text = walk(constraint, task, least + spare, rng)
            assert text is not None
            assert len(text.split()) <= least + spare - 1
    with pytest.raises(ConstraintError, match=r"raise sampling\.max_new_tokens"):
        constraint.check_budget(task, least - 1)


def test_the_shortest_end_agrees_with_a_search() -> None:
    grammar, rng = TheoryGrammar(SMALL), random.Random(5)

    class Searched(TheoryGrammar):
        def shortest_end(self, state: Any) -> int:
            return self._ends.get(state, self._search)

    searched = Searched(SMALL)
    for _ in range(30):
        state: Any = grammar.start(ANY)
        while grammar.words(state):
            assert grammar.shortest_end(state) == searched.shortest_end(state)
            words = grammar.words(state)
            after = grammar.after(state, rng.choice(words))
            assert grammar.shortest_end(after) <= grammar.shortest_end(state) + grammar.stretch
            state = after


def test_states_with_equal_views_allow_the_same_words() -> None:
    """Token sets cached by view equal those computed for each state, near the end of the budget and far from it."""

    class Plain(WordConstraint[Any]):
        def view(self, state: Any) -> Any:
            return object()

    words = ("<eos>", *GRAMMAR.alphabet())
    kept, anew, rng = constraint_of(GRAMMAR), Plain(GRAMMAR, words, 0), random.Random(2)
    for number in range(40):
        task = EXTENSION if number % 4 == 0 else ANY
        one, other = kept.begin(task), anew.begin(task)
        left = one.shortest_end() + rng.randrange(60)
        while not one.ended:
            choices = members(one.allowed(left)).tolist()
            assert choices == members(other.allowed(left)).tolist()
            token = rng.choice(choices)
            one.advance(token)
            other.advance(token)
            left -= 1


def test_invalid_given_words_are_rejected() -> None:
    for given in ("SSB", "GAUGE SU(9)", "GAUGE U(1) SSB S1", f"{SM}", "GAUGE SU(3) U(1)"):
        with pytest.raises(ConstraintError):
            GRAMMAR.start(Task("t", "", {"given": given}))
    with pytest.raises(ConstraintError, match="given text has 'F1'"):
        GRAMMAR.start(Task("t", "", {"given": EXTENDED.given, "terms": "yukawa F1 F1 S1 1e0"}))


def test_limits_are_respected() -> None:
    grammar = TheoryGrammar(Limits(groups=1, abelian=0, largest=3, states=3, multiplets=1, vevs=0, scalars=0, terms=0))
    state: Any = grammar.start(ANY)
    for word in ["GAUGE", "SU(3)", "SSB", "MULTIPLETS", "F1", "left"]:
        state = grammar.moves(state)[word]
    assert grammar.words(state) == ("1", "3", "3*")
    for word in ["3", "x1"]:
        state = grammar.moves(state)[word]
    assert grammar.words(state) == (INTERACTIONS,)
    assert not grammar.words(grammar.moves(state)[INTERACTIONS])


def test_a_theory_without_scalars_has_no_scalar_terms() -> None:
    assert set(allowed_terms((1,), state_after("GAUGE U(1) SSB MULTIPLETS F1 left 0 x1").content.fields).children) == {
        "mass"
    }
