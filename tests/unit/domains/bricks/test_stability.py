"""The stability analysis: methods, loads, scores, failing bricks and missing packages."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import threading

import numpy as np
import pytest

from benchmarks.bricks.brick_cases import golden
from benchmarks.bricks.random_structures import random_structure
from benchmarks.bricks.weighted_program import assess_weighted
from steelyard.domains.bricks import Brick, Load, Physics, Structure, World, assess, largest_pull
from steelyard.domains.bricks.connectivity import floating
from steelyard.domains.bricks.contacts import contacts
from steelyard.domains.bricks.stability import assessment, highs
from steelyard.domains.bricks.stability.assessment import _unbalanced  # pyright: ignore[reportPrivateUsage]
from steelyard.domains.bricks.stability.physics import PUBLISHED
from steelyard.domains.bricks.stability.program import Program, Solution, pull_program
from steelyard.domains.bricks.stability.residuals import residuals
from steelyard.domains.bricks.stability.solvers import solver
from steelyard.domains.bricks.stability.statics import Statics, statics
from steelyard.domains.bricks.structure import place
from steelyard.errors import MissingExtraError, VerifierError

pytest.importorskip("highspy")

CASES = {case.name: case.structure for case in golden()}
LEVER = place([Brick(1, 1, 0, 0, 0), Brick(2, 1, 0, 0, 1)], World())


def equations(structure: Structure) -> Statics:
    return statics(structure, contacts(structure), (), PUBLISHED)


def test_the_connectivity_method_ignores_forces() -> None:
    verdict = assess(CASES["stairs of 20"], method="connectivity")
    assert verdict.stands, "the collapse goes unnoticed"
    assert math.isnan(verdict.pull)
    afloat = place([Brick(1, 1, 0, 0, 0), Brick(1, 1, 3, 0, 1)], World())
    assert assess(afloat, method="connectivity").failing == (1,)


def test_an_empty_structure_stands_without_pull() -> None:
    for method in ("highs", "connectivity"):
        assert assess(Structure(()), method=method).stands
    assert assess(Structure(()), symmetric=True).stands
    assert largest_pull(Structure(())) == 0.0


def test_scores_are_pulls_over_the_capacity() -> None:
    verdict = assess(CASES["stick"])
    assert verdict.score_B.max() == pytest.approx(verdict.pull / PUBLISHED.capacity, rel=1e-5)
    assert verdict.score_B.min() >= 0.0
    assert verdict.score_B.argmax() == 1, "the second brick carries the whole stick"


def test_bricks_beyond_the_capacity_fail() -> None:
    assert assess(CASES["stairs of 20"]).failing == (1,)
    assert assess(CASES["load on four"]).failing == (1,)


@pytest.mark.parametrize("name", ["stairs of 19", "stairs of 20"])
def test_a_zero_load_has_no_effect(name: str) -> None:
    assert largest_pull(CASES[name], [Load(0, 21, 0, 0.0)]) == largest_pull(CASES[name])


def test_the_pull_grows_with_the_load() -> None:
    pulls = [largest_pull(LEVER, [Load(1, 0, 1, kilograms)]) for kilograms in (0.0, 0.01, 0.1, 1.0)]
    assert pulls == sorted(pulls)
    assert largest_pull(LEVER, [Load(1, 0, 1, 0.2)]) == pytest.approx(largest_pull(LEVER, [Load(1, 0, 1, 0.1)] * 2))


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (Load(1, 0, 0, 1.0), r"at \(1,0,0\): there is no brick"),
        (Load(0, 0, 0, -1.0), "non-negative"),
        (Load(0, 0, 0, math.nan), "non-negative"),
    ],
)
def test_invalid_loads_are_rejected(load: Load, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assess(LEVER, [load])


@pytest.mark.parametrize("key", ["gravity", "capacity", "layer", "pitch"])
def test_invalid_physics_are_rejected(key: str) -> None:
    with pytest.raises(ValueError, match=f"{key} = 0.0"):
        Physics(**{key: 0.0})


def test_the_program_has_five_rows_per_brick() -> None:
    program = pull_program(equations(LEVER))
    assert program.rows == 10
    # Two contacts with four points and two horizontal forces each, plus one column for the largest tensile force.
    assert program.columns == 2 * (4 + 2) + 1


def test_neighbours_support_each_other_by_pressing() -> None:
    """Two posts that lean on each other have a smaller tensile force than a single post."""
    post = [Brick(1, 1, 0, 0, 0), Brick(2, 1, 0, 0, 1), Brick(2, 1, 1, 0, 2)]
    other = [Brick(h, w, 5 - x - h, y, z) for h, w, x, y, z in post]
    lean = place([*post, *(brick._replace(x=brick.x + 1) for brick in other)], World())
    assert largest_pull(lean) < largest_pull(place(post, World())) - 1e-4


def test_residuals_are_zero_exactly_if_everything_is_connected() -> None:
    find = solver("highs")
    assert residuals(equations(CASES["stairs of 20"]), find, PUBLISHED).total == pytest.approx(0.0, abs=1e-7)
    for seed in range(10):
        structure = random_structure(12, random.Random(seed), float_=0.3)
        afloat = list(floating(structure))
        left = residuals(equations(structure), find, PUBLISHED)
        weight = float(structure.mass_B[afloat].sum()) * PUBLISHED.gravity
        assert left.total == pytest.approx(weight, rel=1e-6), "the weight of the floating bricks"
        assert set(np.flatnonzero(left.size_B > 1e-6).tolist()) <= set(afloat)


def test_without_an_equilibrium_the_residuals_identify_a_failing_brick() -> None:
    structure = place([Brick(2, 2, 0, 0, 0), Brick(2, 2, 5, 0, 3)], World())
    assert highs.solve(pull_program(equations(structure))) is None
    verdict = _unbalanced(equations(structure), highs.solve, PUBLISHED)
    assert (verdict.stands, verdict.pull, verdict.failing) == (False, math.inf, (1,))


def test_all_floating_bricks_fail_not_only_the_one_with_the_residual() -> None:
    structure = place([Brick(2, 2, 0, 0, 0), Brick(2, 2, 5, 0, 3), Brick(2, 2, 5, 0, 4)], World())
    assert assess(structure).failing == (1, 2)


def test_floating_bricks_fail_whatever_the_solver_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_pull(program: Program) -> Solution:
        return Solution(0.0, np.zeros(program.columns))

    monkeypatch.setattr(assessment, "solver", lambda _: no_pull)
    structure = place([Brick(2, 2, 0, 0, 0), Brick(2, 2, 5, 0, 3)], World())
    assert assess(structure).failing == (1,)
    assert math.isinf(largest_pull(structure))


@pytest.mark.parametrize("name", CASES)
def test_a_structure_at_its_limit_stands_or_has_a_failing_brick(name: str) -> None:
    limit = largest_pull(CASES[name])
    for factor in (1 - 1e-7, 1 - 1e-10, 1.0, 1 + 1e-10, 1 + 1e-7):
        physics = Physics(capacity=limit * factor)
        verdict = assess(CASES[name], physics=physics)
        assert verdict.stands is (verdict.pull / physics.capacity < 1.0) is not bool(verdict.failing)
    assert verdict.stands


def test_results_do_not_depend_on_earlier_solves_or_the_thread() -> None:
    structures = [random_structure(15, random.Random(seed)) for seed in range(4)]
    first = [assess(structure).score_B.tolist() for structure in structures]
    again = [assess(structure).score_B.tolist() for structure in reversed(structures)][::-1]
    other: list[list[float]] = []
    thread = threading.Thread(target=lambda: other.extend(assess(s).score_B.tolist() for s in structures))
    thread.start()
    thread.join()
    assert first == again == other


def test_the_solver_works_if_other_code_set_up_highs_with_more_threads() -> None:
    program = """
import highspy
other = highspy.Highs()
other.setOptionValue("output_flag", False)
other.setOptionValue("threads", 2)
other.addVariable(lb=0, obj=1)
other.run()
from steelyard.domains.bricks import World, largest_pull, parse
print(largest_pull(parse("1x1 (0,0,0)\\n2x1 (0,0,1)", World())))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert float(result.stdout.splitlines()[-1]) == pytest.approx(largest_pull(LEVER))


def test_gurobi_agrees_with_highs() -> None:
    pytest.importorskip("gurobipy")
    for case in golden():
        ours, theirs = assess(case.structure), assess(case.structure, method="gurobi")
        assert theirs.stands is ours.stands
        assert theirs.pull == pytest.approx(ours.pull, rel=1e-7)
        assert theirs.failing == ours.failing
    assert not assess_weighted(CASES["stairs of 20"], backend="gurobi").stands


def test_a_program_beyond_the_gurobi_licence_is_reported() -> None:
    pytest.importorskip("gurobipy")
    wall = place([Brick(2, 4, 2 * x, 4 * y, z) for z in range(6) for x in range(5) for y in range(5)], World())
    with pytest.raises(VerifierError, match=r"Gurobi rejected a program of \d+ columns"):
        assess(wall, method="gurobi")


def test_missing_packages_name_their_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highs, "_thread_state", threading.local())
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(MissingExtraError, match=r"steelyard\[bricks\]"):
        assess(LEVER)
    monkeypatch.setitem(sys.modules, "gurobipy", None)
    with pytest.raises(MissingExtraError, match=r"steelyard\[gurobi\]"):
        assess(LEVER, method="gurobi")
    assert assess(LEVER, method="connectivity").stands


def test_an_unknown_solver_is_rejected() -> None:
    with pytest.raises(ValueError, match="'glpk' does not exist; choose 'highs' or 'gurobi'"):
        assess(LEVER, method="glpk")  # pyright: ignore[reportArgumentType]
