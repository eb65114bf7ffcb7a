"""An adaptive KL coefficient reacts within a few hundred steps, regardless of the number of samples per step."""

from __future__ import annotations

from benchmarks.correctness.seam_checks import SeamCheck
from steelyard import config as configs
from steelyard.compose.learning import build_adaptive_kl

FACTOR = 10.0


def steps_to_react(_: bool) -> float:
    """Count the 64-sample steps until the coefficient has grown tenfold, with the KL at twice its target."""
    overrides = ["--loss.kl.coefficient=0.05", "--loss.kl.adaptive.target=0.1"]
    sizes = ["--sampling.tasks_per_step=8", "--sampling.group_size=8"]
    config = configs.load("sequences", [*overrides, *sizes])
    adaptive = config.loss.kl.adaptive
    if adaptive is None:
        raise ValueError("loss.kl.adaptive is None although it was set in the overrides")
    rule, coefficient, steps = build_adaptive_kl(config, adaptive), 1.0, 0
    while coefficient < FACTOR:
        coefficient, steps = rule.update(coefficient, 2 * adaptive.target, 64), steps + 1
    return float(steps)


CHECKS = (SeamCheck("adaptive KL", "steps to a tenfold coefficient", 1801.0, steps_to_react, "<=", 300.0, "steps"),)
