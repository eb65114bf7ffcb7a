"""Adjust values that depend on other keys: the default learning rate, and warm-ups too long for the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steelyard.config.loss import SCRATCH_LR

if TYPE_CHECKING:
    from steelyard.config.base import ScheduleConfig
    from steelyard.config.loss import OptimiserConfig
    from steelyard.config.root import Config
    from steelyard.config.warmstart import WarmstartConfig

WARMUP_SHARE = 10
"""A warm-up that is too long is shortened to the number of steps divided by this value."""


def adjusted(config: Config) -> tuple[Config, list[str]]:
    """Return the adjusted configuration, and a notice for each adjusted value that the user had set."""
    notices: list[str] = []
    loss = config.loss
    update: dict[str, Any] = {
        "optimiser": _optimiser(config, notices),
        "warmstart": None if config.warmstart is None else _warmstart(config.warmstart, notices),
        "loss": loss.model_copy(
            update={
                name: term.model_copy(update={"coefficient": _coefficient(name, term.coefficient, config, notices)})
                for name, term in (("kl", loss.kl), ("entropy", loss.entropy))
            }
        ),
    }
    return config.model_copy(update=update), notices


def _optimiser(config: Config, notices: list[str]) -> OptimiserConfig:
    optimiser, steps = config.optimiser, config.run.steps
    update: dict[str, Any] = {}
    if config.model.scratch is not None and "lr" not in optimiser.model_fields_set:
        update["lr"] = SCRATCH_LR
    if optimiser.warmup_steps >= steps:
        update["warmup_steps"] = _shortened(
            "optimiser.warmup_steps", optimiser.warmup_steps, "run.steps", steps, notices
        )
    return optimiser.model_copy(update=update)


def _coefficient(name: str, schedule: ScheduleConfig, config: Config, notices: list[str]) -> ScheduleConfig:
    steps = config.run.steps
    if schedule.steps is not None or schedule.warmup < steps:
        return schedule
    key = f"loss.{name}.coefficient.warmup"
    return schedule.model_copy(update={"warmup": _shortened(key, schedule.warmup, "run.steps", steps, notices)})


def _warmstart(warmstart: WarmstartConfig, notices: list[str]) -> WarmstartConfig:
    warmup, updates = warmstart.warmup_steps, warmstart.updates
    if warmup < updates:
        return warmstart
    bound = "the number of updates, examples/batch"
    return warmstart.model_copy(
        update={"warmup_steps": _shortened("warmstart.warmup_steps", warmup, bound, updates, notices)}
    )


def _shortened(key: str, warmup: int, bound: str, steps: int, notices: list[str]) -> int:
    shorter = steps // WARMUP_SHARE
    notices.append(f"{key} = {warmup} must be smaller than {bound} ({steps}); using {shorter}")
    return shorter
