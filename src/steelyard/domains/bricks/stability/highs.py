"""The HiGHS solver (requires the ``bricks`` extra) with dual simplex, the fastest method for these programs.

Each thread reuses one solver, because creating one costs a third of a small solve. Passing a program clears the
previous one, so the result depends on the program alone. Only this file imports ``highspy``.
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
_thread_state = threading.local()


def solve(program: Program) -> Solution | None:
    """Return the optimum, which is deterministic for a given program, or ``None`` if the program is infeasible."""
    return run(load(program))


def load(program: Program) -> Highs:
    """Pass the program to this thread's solver without running it."""
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
        raise VerifierError(f"HiGHS rejected a program of {program.columns} columns and {program.rows} rows")
    return highs


def run(highs: Highs) -> Solution | None:
    """Solve the loaded program."""
    highs.run()
    if highs.getModelStatus().name == "kNotset":
        # HiGHS has one thread pool per process; if other code has already set its size, accept that size.
        highs.setOptionValue("threads", 0)
        highs.run()
    status = highs.getModelStatus()
    if status.name == "kOptimal":
        return Solution(highs.getInfo().objective_function_value, np.asarray(highs.getSolution().col_value))
    if status.name in ("kInfeasible", "kUnboundedOrInfeasible"):
        return None
    raise VerifierError(f"HiGHS found no solution: {highs.modelStatusToString(status)}")


def require() -> None:
    """Raise :class:`MissingExtraError` before workers start if the solver is not installed."""
    if find_spec("highspy") is None:
        raise MissingExtraError("stability analysis", "bricks")


def _solver() -> Highs:
    if not hasattr(_thread_state, "highs"):
        try:
            from highspy import Highs
        except ImportError:
            raise MissingExtraError("stability analysis", "bricks") from None
        highs = Highs()
        for name, value in OPTIONS.items():
            highs.setOptionValue(name, value)
        _thread_state.highs = highs
    return _thread_state.highs
