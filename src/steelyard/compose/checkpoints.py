"""Load a run's model at one of its checkpoints."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal, NamedTuple

from steelyard.checkpoint import Checkpoint, Store, open_checkpoint
from steelyard.compose.policy import build_policy
from steelyard.compose.supplied import NOTHING_SUPPLIED, Supplied
from steelyard.compose.warmstart import starting_from, warm_start_folder
from steelyard.config import Config
from steelyard.defaults import BEST_MODE, CHECKPOINT
from steelyard.errors import CheckpointError
from steelyard.folders import START
from steelyard.policies.base import Policy

log = logging.getLogger(__name__)


class OpenedPolicy(NamedTuple):
    """A loaded policy and the origin of its weights."""

    policy: Policy
    label: str
    """Description for output."""
    step: int | None
    """Step of the checkpoint; ``None`` if the weights do not come from a checkpoint."""


def open_policy(
    config: Config, run: Path | None, checkpoint: str, supplied: Supplied = NOTHING_SUPPLIED
) -> OpenedPolicy:
    """Load the model of ``run`` at ``checkpoint``: ``latest``, ``best``, a step number, or ``start`` (before training).

    Without a run, build the model named in the configuration.
    """
    if run is None:
        return OpenedPolicy(build_policy(config, supplied), str(config.model.path), None)
    if checkpoint == START:
        return OpenedPolicy(build_policy(_at_start(config), supplied), f"{run} before training", None)
    policy = build_policy(config, supplied)
    found = find_checkpoint(run, checkpoint, config.checkpoint.best_mode)
    policy.load_weights(found.folder("model"))
    return OpenedPolicy(policy, f"{run} at step {found.step}", found.step)


def _at_start(config: Config) -> Config:
    """Return the configuration of the first step; its model is the result of the run's warm start."""
    if config.warmstart is None:
        return config
    if not warm_start_folder(config).is_dir():
        raise CheckpointError(
            f"{warm_start_folder(config)} does not exist, so the run's starting weights are lost; choose a checkpoint"
        )
    return starting_from(config, warm_start_folder(config))


def find_checkpoint(run: Path, which: str = CHECKPOINT, best_mode: Literal["max", "min"] = BEST_MODE) -> Checkpoint:
    """Find a checkpoint of a run: ``latest``, ``best``, or a step number."""
    store = Store(run / "checkpoints", best_mode=best_mode)
    if which.isdigit():
        if int(which) not in store.steps():
            raise CheckpointError(f"{run} has no checkpoint for step {which}; choose from {_listed(store.steps())}")
        return open_checkpoint(store.folder / f"step-{int(which):08d}")
    if which not in ("latest", "best"):
        raise CheckpointError(
            f"unknown checkpoint {which!r}; use latest, best, or one of the steps {_listed(store.steps())}"
        )
    found = store.best() if which == "best" else store.latest()
    if which == "best" and found is None and not store.skipped and (newest := store.latest()) is not None:
        log.warning(
            "no checkpoint of %s has a score, because the run stopped before checkpoint.best_metric was measured; "
            "using the latest (step %d)",
            run,
            newest.step,
        )
        return newest
    if found is None:
        raise CheckpointError(f"{run} has no complete checkpoint ({'; '.join(store.skipped) or 'none was written'})")
    return found


def _listed(steps: list[int]) -> str:
    return ", ".join(map(str, steps)) or "none"
