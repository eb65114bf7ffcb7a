"""The Gurobi solver (requires the ``gurobi`` extra). The licence bundled with the package is limited to 2000 columns
and rows.

Only this file imports ``gurobipy``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steelyard.domains.bricks.stability.program import Program, Solution
from steelyard.errors import MissingExtraError, VerifierError


def solve(program: Program) -> Solution | None:
    """Return the optimum, or ``None`` if the program is infeasible."""
    try:
        import gurobipy
        from scipy.sparse import csc_array
    except ImportError:
        raise MissingExtraError("the solver 'gurobi'", "gurobi") from None
    shape = (program.rows, program.columns)
    matrix = csc_array((program.value, program.index, program.start), shape=shape)
    try:
        with gurobipy.Env(params={"OutputFlag": 0, "Threads": 1}) as env, gurobipy.Model(env=env) as model:
            model.Params.DualReductions = 0
            model.Params.FeasibilityTol = model.Params.OptimalityTol = 1e-9
            x = model.addMVar(program.columns, lb=program.lower, ub=program.upper, obj=program.cost)
            _add_rows(model, matrix, x, program)
            model.optimize()
            if model.Status == gurobipy.GRB.OPTIMAL:
                return Solution(model.ObjVal, np.asarray(x.X))
            if model.Status == gurobipy.GRB.INFEASIBLE:
                return None
            raise VerifierError(f"Gurobi found no solution: status {model.Status}")
    except gurobipy.GurobiError as error:
        raise VerifierError(
            f"Gurobi rejected a program of {shape[1]} columns and {shape[0]} rows: {error}; use method='highs'"
        ) from error


def _add_rows(model: Any, matrix: Any, x: Any, program: Program) -> None:
    """Add the equations, then the rows with a bound on one side."""
    rows = matrix.tocsr()
    equal = program.row_lower == program.row_upper
    at_most = ~equal & np.isfinite(program.row_upper)
    at_least = ~equal & np.isfinite(program.row_lower)
    for chosen, sense, bound in (
        (equal, "=", program.row_lower),
        (at_most, "<", program.row_upper),
        (at_least, ">", program.row_lower),
    ):
        if chosen.any():
            model.addMConstr(rows[chosen], x, sense, bound[chosen])
