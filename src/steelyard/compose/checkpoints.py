"""The model of a run at one of its checkpoints."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal, NamedTuple

from steelyard.checkpoint import Checkpoint, Store, open_checkpoint
from steelyard.compose.policy import build_policy
from steelyard.compose.supplied import NOTHING, Supplied
from steelyard.compose.warmstart import beginning_with, own_folder
from steelyard.config import Config
from steelyard.defaults import BEST_MODE, CHECKPOINT
from steelyard.errors import CheckpointError
from steelyard.folders import START
from steelyard.policies.base import Policy

log = logging.getLogger(__name__)


class Opened(NamedTuple):
    """A model with its weights."""

    policy: Policy
    label: str
    """What to call it."""
    step: int | None
    """Of its checkpoint; ``None`` if it is not from one."""


def open_policy(config: Config, run: Path | None, checkpoint: str, supplied: Supplied = NOTHING) -> Opened:
    """The model of ``run`` at ``checkpoint`` (``latest``, ``best``, a step, or ``start``: before training); without a
    run, the model as the configuration builds it.
    """
    if run is None:
        return Opened(build_policy(config, supplied), str(config.model.path), None)
    if checkpoint == START:
        return Opened(build_policy(_as_begun(config), supplied), f"{run} before training", None)
    policy = build_policy(config, supplied)
    found = find_checkpoint(run, checkpoint, config.checkpoint.best_mode)
    policy.load_weights(found.folder("model"))
    return Opened(policy, f"{run} at step {found.step}", found.step)


def _as_begun(config: Config) -> Config:
    """The configuration of the first step: with the model that the run's warm start left."""
    if config.warmstart is None:
        return config
    if not own_folder(config).is_dir():
        raise CheckpointError(f"{own_folder(config)} is gone, and with it the start of the run; choose a checkpoint")
    return beginning_with(config, own_folder(config))


def find_checkpoint(run: Path, which: str = CHECKPOINT, best_mode: Literal["max", "min"] = BEST_MODE) -> Checkpoint:
    """``latest``, ``best``, or a step number of a run."""
    store = Store(run / "checkpoints", best_mode=best_mode)
    if which.isdigit():
        if int(which) not in store.steps():
            raise CheckpointError(f"{run} has no checkpoint of step {which}; it has {_listed(store.steps())}")
        return open_checkpoint(store.folder / f"step-{int(which):08d}")
    if which not in ("latest", "best"):
        raise CheckpointError(
            f"there is no checkpoint {which!r}: use latest, best, or a step of {_listed(store.steps())}"
        )
    found = store.best() if which == "best" else store.latest()
    if which == "best" and found is None and not store.skipped and (newest := store.latest()) is not None:
        log.warning(
            "no checkpoint of %s has a score: it stopped before checkpoint.best_metric was measured; using the latest "
            "(step %d)",
            run,
            newest.step,
        )
        return newest
    if found is None:
        raise CheckpointError(f"{run} has no whole checkpoint ({'; '.join(store.skipped) or 'none was written'})")
    return found


def _listed(steps: list[int]) -> str:
    return ", ".join(map(str, steps)) or "none"
