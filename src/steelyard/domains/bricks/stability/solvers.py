"""The two solvers of linear programs, HiGHS and Gurobi, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from steelyard.domains.bricks.stability.program import Program, Solution

Backend = Literal["highs", "gurobi"]

Solver = Callable[[Program], Solution | None]
"""``None``: nothing satisfies the program. Any other failure raises :class:`steelyard.errors.VerifierError`."""


def solver(backend: Backend) -> Solver:
    """HiGHS, or Gurobi for those who have it."""
    if backend == "highs":
        from steelyard.domains.bricks.stability.highs import solve

        return solve
    if backend == "gurobi":
        from steelyard.domains.bricks.stability.gurobi import solve

        return solve
    raise ValueError(f"no solver is called {backend!r}; there are 'highs' and 'gurobi'")
