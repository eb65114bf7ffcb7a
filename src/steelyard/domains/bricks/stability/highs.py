"""HiGHS (extra ``bricks``): dual simplex, the quickest for these programs. The only file that imports ``highspy``.

Each thread keeps one solver and gives it program after program: making one anew costs a third of a small solve.
Passing a program clears whatever the last one left, so the answer depends on the program alone.
"""

from __future__ import annotations

import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from steelyard.domains.bricks.stability.program import Program, Solution
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
_kept = threading.local()


def solve(program: Program) -> Solution | None:
    """The optimum, the same for the same program; ``None`` if nothing satisfies it."""
    return run(load(program))


def load(program: Program) -> Highs:
    """The thread's solver, holding the program and not begun."""
    highs = _solver()
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
    if status.name == "kError":
        raise VerifierError(f"HiGHS refused a program of {program.columns} columns and {program.rows} rows")
    return highs


def run(highs: Highs) -> Solution | None:
    """Solve what was loaded."""
    highs.run()
    if highs.getModelStatus().name == "kNotset":
        # HiGHS has one set of threads a process, and somebody else here has already chosen how many: go along with it.
        highs.setOptionValue("threads", 0)
        highs.run()
    status = highs.getModelStatus()
    if status.name == "kOptimal":
        return Solution(highs.getInfo().objective_function_value, np.asarray(highs.getSolution().col_value))
    if status.name in ("kInfeasible", "kUnboundedOrInfeasible"):
        return None
    raise VerifierError(f"HiGHS stopped without an answer: {highs.modelStatusToString(status)}")


def require() -> None:
    """Say at once if the solver is missing, and not from within a worker."""
    if find_spec("highspy") is None:
        raise MissingExtraError("stability analysis", "bricks")


def _solver() -> Highs:
    if not hasattr(_kept, "highs"):
        try:
            from highspy import Highs
        except ImportError:
            raise MissingExtraError("stability analysis", "bricks") from None
        highs = Highs()
        for name, value in OPTIONS.items():
            highs.setOptionValue(name, value)
        _kept.highs = highs
    return _kept.highs
