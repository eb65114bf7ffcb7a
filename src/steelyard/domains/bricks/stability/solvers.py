"""The interface for linear program solvers, and the choice of backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from steelyard.domains.bricks.stability.program import Program, Solution

Backend = Literal["highs", "gurobi"]

Solver = Callable[[Program], Solution | None]
"""Returns ``None`` for an infeasible program; any other failure raises :class:`steelyard.errors.VerifierError`."""


def solver(backend: Backend) -> Solver:
    """Return the solve function of a backend."""
    if backend == "highs":
        from steelyard.domains.bricks.stability.highs import solve

        return solve
    if backend == "gurobi":
        from steelyard.domains.bricks.stability.gurobi import solve

        return solve
    raise ValueError(f"backend = {backend!r} does not exist; choose 'highs' or 'gurobi'")
