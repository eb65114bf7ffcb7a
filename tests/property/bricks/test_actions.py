"""Action spaces compared with brute force: allowed texts are exactly the possible placements, and walks end in time."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.bricks.random_structures import random_structure
from steelyard.constraints.automaton import Automaton
from steelyard.domains.bricks import Reason, Structure, World, floating, is_connected, parse, write
from steelyard.domains.bricks.actions import Absolute, ActionSpace, Lines, Relative, TwoStep, in_building_order
from steelyard.domains.bricks.actions.placements import Placements
from tests.automata import TASK, ramble
from tests.brick_actions import (
    FEW,
    constraint_for,
    placeable_bricks,
    random_bricks,
    texts_adding,
    texts_adding_one_brick,
)

Make = Callable[[World, int, bool], ActionSpace]
SPACES: dict[str, Make] = {
    "absolute": Absolute,
    "lines": Lines,
    "relative": Relative,
    "two steps": TwoStep,
    "two steps, joint": lambda world, max_bricks, may_float: TwoStep(
        world, max_bricks, may_float, (1, 2, 1), joint=True
    ),
    "two steps, far": lambda world, max_bricks, may_float: TwoStep(world, max_bricks, may_float, (2, 0, 2)),
}
SIZES = ((1, 1, 1), (1, 1, 3), (2, 2, 2), (4, 3, 2), (3, 4, 3), (12, 1, 2), (1, 12, 2), (1, 2, 12))
"""Small worlds, which fill up quickly, and worlds with two-digit coordinates."""

spaces, seeds = st.sampled_from(sorted(SPACES)), st.integers(0, 2**32)
worlds = st.sampled_from(SIZES).map(lambda size: World(size, FEW))
slow = settings(max_examples=80)


@slow
@given(spaces, worlds, st.booleans(), seeds)
def test_allowed_texts_are_exactly_the_possible_placements(name: str, world: World, may_float: bool, seed: int) -> None:
    bricks = random_bricks(world, 5, random.Random(seed), may_float=may_float)
    space = SPACES[name](world, 6, may_float)
    expected = {
        words: brick
        for brick in placeable_bricks(bricks, world, may_float=may_float)
        for words in texts_adding(space, bricks, brick)
    }
    assert texts_adding_one_brick(space.automaton(), bricks) == expected


@slow
@given(spaces, worlds, st.booleans(), seeds, st.integers(1, 8), st.floats(0, 1))
def test_random_walks_end_within_budget_with_a_structure(
    name: str, world: World, may_float: bool, seed: int, max_bricks: int, room: float
) -> None:
    space, rng = SPACES[name](world, max_bricks, may_float), random.Random(seed)
    constraint, written, between = constraint_for(space)
    shortest, enough = constraint.begin(TASK).shortest_end(), max_bricks * space.tokens_per_brick + 1
    budget = round(shortest + room * (enough - shortest))
    made = ramble(constraint, budget, rng.choice)
    assert len(made) <= budget
    text = between.join(written[token] for token in made[:-1])
    reading = space.read(text)
    assert {flaw.reason for flaw in reading.flaws} <= ({Reason.FLOATING} if may_float else set())
    assert 1 <= len(reading.structure) <= max_bricks
    assert parse(write(reading.structure), world, may_float=may_float) == reading.structure
    assert len(space.ends(text)) >= len(reading.lines)


@slow
@given(spaces, worlds, st.booleans(), seeds)
def test_a_walk_that_never_stops_fills_the_world(name: str, world: World, may_float: bool, seed: int) -> None:
    space, rng = SPACES[name](world, 7, may_float), random.Random(seed)
    constraint, written, between = constraint_for(space)
    made = ramble(
        constraint,
        7 * space.tokens_per_brick + 1,
        lambda choices: rng.choice([token for token in choices if token] or choices),
    )
    bricks = space.read(between.join(written[token] for token in made[:-1])).structure.bricks
    more = placeable_bricks(bricks, world, may_float=may_float)
    assert len(bricks) == 7 or not any(True for brick in more for _ in texts_adding(space, bricks, brick))


@slow
@given(spaces, seeds, st.integers(1, 20), st.booleans())
def test_structures_round_trip_and_are_allowed(name: str, seed: int, max_bricks: int, hangs: bool) -> None:
    """Any structure in building order can be written in every action space with sufficient reach."""
    structure = in_building_order(random_structure(max_bricks, random.Random(seed), hang=0.4 if hangs else 0.0))
    space = SPACES[name](structure.world, max_bricks, False)
    if isinstance(space, TwoStep):
        space = TwoStep(structure.world, max_bricks, joint=space.joint)
    text = space.write(structure)
    reading = space.read(text)
    assert (reading.structure, reading.flaws, len(reading.lines)) == (structure, (), max_bricks)
    automaton: Automaton[Any] = space.automaton()
    state = automaton.start(TASK)
    for symbol in text.split() if space.vocabulary() else text:
        state = automaton.moves(state)[symbol]
    assert automaton.may_end(state)
    assert state.bricks == structure.bricks
    assert automaton.moves(state) == {}, "no further brick is allowed"
    ends = space.ends(text)
    assert [space.read(text[:end]).structure.bricks[-1] for end in ends[:max_bricks]] == list(structure.bricks)


@slow
@given(seeds, st.integers(1, 12), st.floats(0, 0.5))
def test_building_order_supports_every_brick_that_can_be_supported(seed: int, bricks: int, afloat: float) -> None:
    rng = random.Random(seed)
    heaped = random_structure(bricks, rng, World((8, 8, 8)), hang=0.4, float_=afloat)
    shuffled = Structure(tuple(rng.sample(heaped.bricks, bricks)), heaped.world)
    ordered = in_building_order(shuffled)
    held = bricks - len(floating(shuffled))
    assert sorted(ordered.bricks) == sorted(shuffled.bricks)
    assert all(is_connected(Structure(ordered.bricks[:count], heaped.world)) for count in range(held + 1))
    assert floating(ordered) == tuple(range(held, bricks))
    assert in_building_order(ordered) == ordered


@slow
@given(spaces, worlds, st.booleans(), seeds)
def test_shortest_end_matches_a_search(name: str, world: World, may_float: bool, seed: int) -> None:
    space, rng = SPACES[name](world, 4, may_float), random.Random(seed)
    automaton: Automaton[Any] = space.automaton()
    state = automaton.start(TASK)
    for _ in range(rng.randint(0, 30)):
        following = automaton.moves(state)
        if not following:
            break
        before, state = state, rng.choice(list(following.values()))
        assert automaton.stretch is not None
        assert automaton.shortest_end(state) <= automaton.shortest_end(before) + automaton.stretch
    assert automaton.shortest_end(state) == Automaton.shortest_end(automaton, state)


@slow
@given(worlds, st.booleans(), seeds)
def test_placements_do_not_depend_on_earlier_queries(world: World, may_float: bool, seed: int) -> None:
    bricks = random_bricks(world, 6, random.Random(seed), may_float=may_float)
    stepwise, direct = Placements(world, may_float=may_float), Placements(world, may_float=may_float)
    for count in range(len(bricks) + 1):
        stepwise.open(bricks[:count])
    assert (stepwise.open(bricks) == direct.open(bricks)).all()
    assert (stepwise.open(()) == direct.open(())).all(), "cached arrays are not modified"


@given(spaces, st.text() | st.from_regex(r"((ground|back\d|[xyz][+-]?\d|\d,\d|[+-]\d[+-]\d[+-]\d|\dx\d) ?){0,12}"))
def test_any_text_can_be_read(name: str, text: str) -> None:
    space = SPACES[name](World((6, 6, 6)), 5, False)
    reading = space.read(text)
    ends = space.ends(text)
    assert all(0 < line <= len(ends) for line in (*reading.lines, *(flaw.line for flaw in reading.flaws)))
    assert list(ends) == sorted(ends)
    if name != "lines":
        assert len(ends) == len(set(reading.lines) | {flaw.line for flaw in reading.flaws})
