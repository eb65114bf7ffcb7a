"""HiGHS (extra ``bricks``): dual simplex, the quickest for these programs. The only file that imports ``highspy``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.domains.bricks.stability.program import Program
from steelyard.domains.bricks.stability.solvers import Solution
from steelyard.errors import MissingExtraError, VerifierError

if TYPE_CHECKING:
    from highspy import Highs

OPTIONS = {
    "output_flag": False,
    "solver": "simplex",
    "threads": 1,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}
BY_COLUMNS, MINIMISE = 1, 1


def solve(program: Program) -> Solution | None:
    """The optimum, the same for the same program; ``None`` if nothing satisfies it."""
    return run(load(program))


def load(program: Program) -> Highs:
    """A solver that holds the program and has not begun."""
    try:
        from highspy import Highs, HighsStatus
    except ImportError:
        raise MissingExtraError("stability analysis", "bricks") from None
    highs = Highs()
    for name, value in OPTIONS.items():
        highs.setOptionValue(name, value)
    status = highs.passModel(
        program.columns,
        program.rows,
        len(program.value),
        BY_COLUMNS,
        MINIMISE,
        0.0,
        program.cost,
        program.lower,
        program.upper,
        program.row_lower,
        program.row_upper,
        program.start,
        program.index,
        program.value,
        np.zeros(program.columns, np.int32),
    )
    if status == HighsStatus.kError:
        raise VerifierError(f"HiGHS refused a program of {program.columns} columns and {program.rows} rows")
    return highs


def run(highs: Highs) -> Solution | None:
    from highspy import HighsModelStatus

    highs.run()
    status = highs.getModelStatus()
    if status == HighsModelStatus.kOptimal:
        return Solution(highs.getInfo().objective_function_value, np.asarray(highs.getSolution().col_value))
    if status in (HighsModelStatus.kInfeasible, HighsModelStatus.kUnboundedOrInfeasible):
        return None
    raise VerifierError(f"HiGHS stopped without an answer: {highs.modelStatusToString(status)}")
