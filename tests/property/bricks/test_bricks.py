"""Properties of structures, texts and verdicts, on random heaps with random loads."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.bricks import brick_reference
from benchmarks.bricks.random_structures import loads, random_structure
from steelyard.domains.bricks import (
    STANDARD,
    InvalidStructureError,
    Library,
    Load,
    Physics,
    Structure,
    World,
    assess,
    floating,
    largest_pull,
    parse,
    read,
    write,
)
from steelyard.domains.bricks.contacts import contacts
from steelyard.domains.bricks.images import LoadedStructure, images, moved
from steelyard.domains.bricks.stability import highs
from steelyard.domains.bricks.stability.physics import PUBLISHED
from steelyard.domains.bricks.stability.program import pull_program
from steelyard.domains.bricks.stability.statics import statics
from steelyard.domains.bricks.stability.symmetry import largest_pull_symmetric

WIDE = World((40, 40, 20))
WORLDS = (WIDE, World((14, 3, 12)), World((3, 14, 12)), World((6, 6, 12)))
"""In the narrow worlds, bricks press against many neighbours."""
quick = settings(max_examples=60)


@st.composite
def loaded(draw: st.DrawFn, *, max_bricks: int = 14, afloat: float = 0.0) -> LoadedStructure:
    rng = random.Random(draw(st.integers(0, 2**32)))
    structure = random_structure(draw(st.integers(1, max_bricks)), rng, draw(st.sampled_from(WORLDS)), float_=afloat)
    return structure, tuple(loads(structure, rng))


@pytest.fixture(scope="module", autouse=True)
def _solver() -> None:
    pytest.importorskip("highspy")


@quick
@given(loaded(), st.integers(-10, 10), st.integers(-10, 10))
def test_translation_does_not_change_the_verdict(case: LoadedStructure, dx: int, dy: int) -> None:
    assert largest_pull(*case) == largest_pull(*moved(case[0], dx, dy, case[1]))


@quick
@given(loaded(), st.floats(0.1, 10.0))
def test_scaling_masses_loads_and_capacity_does_not_change_the_verdict(case: LoadedStructure, factor: float) -> None:
    structure, weights = case
    library = Library(tuple(replace(part, mass=part.mass * factor) for part in STANDARD.parts))
    scaled = Structure(structure.bricks, replace(structure.world, library=library))
    more = [load._replace(kilograms=load.kilograms * factor) for load in weights]
    physics = Physics(capacity=PUBLISHED.capacity * factor)
    pull, other = largest_pull(structure, weights), largest_pull(scaled, more, physics=physics)
    assert other == pytest.approx(pull * factor, rel=1e-7, abs=1e-9)
    assert (other < physics.capacity) is (pull < PUBLISHED.capacity)


@quick
@given(loaded(), st.integers(0, 7))
def test_the_symmetric_verdict_is_exactly_invariant(case: LoadedStructure, which: int) -> None:
    image = list(images(*case))[which]
    assert largest_pull_symmetric(*image) == largest_pull_symmetric(*case)
    ours, theirs = assess(*case, symmetric=True), assess(*image, symmetric=True)
    assert theirs.stands is ours.stands
    assert theirs.score_B.max() == ours.score_B.max()


@quick
@given(loaded())
def test_the_symmetric_verdict_is_the_worst_of_all_images(case: LoadedStructure) -> None:
    pulls = [largest_pull(*image) for image in images(*case)]
    assert largest_pull_symmetric(*case) == pytest.approx(max(pulls), rel=1e-7, abs=1e-9)


@quick
@given(loaded())
def test_the_largest_pull_equals_that_of_an_independent_formulation(case: LoadedStructure) -> None:
    pytest.importorskip("scipy")
    expected = brick_reference.largest_pull(*case, PUBLISHED)
    assert largest_pull(*case) == pytest.approx(expected, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("world", WORLDS[1:], ids=lambda world: str(world.size))
def test_the_largest_pull_in_crowded_worlds_equals_the_reference(world: World) -> None:
    pytest.importorskip("scipy")
    for seed in range(20):
        rng = random.Random(seed)
        structure = random_structure(14, rng, world)
        weights = loads(structure, rng)
        expected = brick_reference.largest_pull(structure, weights, PUBLISHED)
        assert largest_pull(structure, weights) == pytest.approx(expected, rel=1e-6, abs=1e-8)


@quick
@given(loaded(afloat=0.3))
def test_an_equilibrium_exists_exactly_if_no_brick_floats(case: LoadedStructure) -> None:
    structure, weights = case
    afloat = floating(structure)
    verdict = assess(*case)
    assert not (verdict.stands and afloat)
    assert set(afloat) <= set(verdict.failing)
    assert math.isinf(verdict.pull) is bool(afloat)
    solved = highs.solve(pull_program(statics(structure, contacts(structure), weights, PUBLISHED)))
    assert (solved is None) is bool(afloat), "the program finds this without connectivity"


@quick
@given(loaded())
def test_the_verdict_follows_from_the_largest_pull(case: LoadedStructure) -> None:
    verdict = assess(*case)
    assert verdict.stands is (verdict.pull < PUBLISHED.capacity)
    assert verdict.pull == largest_pull(*case)
    assert bool(verdict.failing) is not verdict.stands


@quick
@given(loaded(afloat=0.3))
def test_structures_round_trip_through_text(case: LoadedStructure) -> None:
    assert parse(write(case[0]), case[0].world, may_float=True) == case[0]


@given(st.text() | st.from_regex(r"(\d{1,2}x\d{1,2} \(\d{1,2},\d{1,2},\d{1,2}\)\n?){1,4}", fullmatch=True))
def test_any_text_is_a_structure_or_has_a_flaw(text: str) -> None:
    reading = read(text, WIDE)
    try:
        structure = parse(text, WIDE)
    except InvalidStructureError as error:
        assert not reading.flaws or error.flaw == reading.flaws[0]  # noqa: PT017
    else:
        assert structure == reading.structure
        assert not reading.flaws
        assert parse(write(structure), WIDE) == structure


@quick
@given(loaded(), st.integers(0, 2**32))
def test_the_order_of_bricks_and_loads_does_not_matter(case: LoadedStructure, seed: int) -> None:
    rng = random.Random(seed)
    bricks, weights = list(case[0].bricks), [Load(*load) for load in case[1]]
    rng.shuffle(bricks)
    rng.shuffle(weights)
    other = largest_pull(Structure(tuple(bricks), case[0].world), weights)
    assert other == pytest.approx(largest_pull(*case), rel=1e-7, abs=1e-9)
