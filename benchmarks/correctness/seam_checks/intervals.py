"""In simulation, the 95% intervals of pass@k and success have the right coverage even for few tasks."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.correctness.seam_checks import SeamCheck
from steelyard.training.evaluation import pass_at_interval
from steelyard.types import Verdict

SOLVED = (Verdict.scored(0.0), Verdict.scored(1.0, success=True))
CASES = ((1, 1, 0.5, 0.5), (1, 1, 0.5, 2.0), (4, 1, 0.5, 2.0), (4, 1, 2.0, 0.5), (4, 4, 1.0, 1.0), (16, 4, 1.0, 1.0))
"""Samples per task, k, and the Beta distribution of the tasks' success rates."""


def coverage(tasks: int, case: tuple[int, int, float, float], repeats: int) -> float:
    """Return the fraction of simulated evaluations whose interval contains the true mean over all tasks."""
    samples, k, alpha, beta = case
    rng = np.random.default_rng([tasks, samples, k])
    true = float(np.mean(1 - (1 - rng.beta(alpha, beta, 200_000)) ** k))
    held = 0
    for _ in range(repeats):
        counts = rng.binomial(samples, rng.beta(alpha, beta, tasks))
        found = pass_at_interval([[SOLVED[int(index < count)] for index in range(samples)] for count in counts], k)
        held += found.low <= true <= found.high
    return held / repeats


def _lowest(tasks: int, quick: bool) -> float:
    return min(coverage(tasks, case, 300 if quick else 2000) for case in CASES)


CHECKS = tuple(
    SeamCheck("intervals", f"lowest coverage of the 95% interval, {n} tasks", before, partial(_lowest, n), ">=", 0.9)
    for n, before in ((8, 0.813), (16, 0.867), (64, 0.923))
)
