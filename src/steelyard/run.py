"""Training a run to its end."""

from __future__ import annotations

import logging
from contextlib import closing

from steelyard.compose import Supplied, resume_run, start_run
from steelyard.config import Config
from steelyard.errors import LostLearnerError
from steelyard.folders import RunLock, run_folder
from steelyard.quiet import quiet_engines
from steelyard.training.loop import Trainer

log = logging.getLogger(__name__)

LOST_IN_VAIN = 3
"""How often a learner may be lost in a row without coming further than before."""


def run(config: Config, supplied: Supplied, *, resume: bool, overwrite: bool = False) -> Trainer:
    """Start or resume a run, and train it to its end. No other process can train in the same folder meanwhile.
    ``overwrite`` removes the run that is there.
    """
    with RunLock(run_folder(config)) as lock:
        if overwrite:
            lock.clear()
        return run_holding(lock, config, supplied, resume=resume)


def run_holding(lock: RunLock, config: Config, supplied: Supplied, *, resume: bool) -> Trainer:
    """Start or resume, train, and close what is open whatever happens. A run that has lost a process of its learner
    goes on from its last checkpoint by itself, unless it was asked to stop, or that happens again and again without
    coming further than before.
    """
    with quiet_engines():
        trainer: Trainer | None = (resume_run if resume else start_run)(config, supplied)
        furthest, in_vain = trainer.step, 0
        while True:
            try:
                trainer = trainer or resume_run(config, supplied)
                trainer.before_writing = lock.require_in_place
                with closing(trainer):
                    trainer.train()
                return trainer
            except LostLearnerError as error:
                step = furthest if trainer is None else trainer.step
                in_vain = 0 if step > furthest else in_vain + 1
                furthest = max(furthest, step)
                if in_vain >= LOST_IN_VAIN or (trainer is not None and trainer.stopping):
                    raise
                log.warning("step %d: %s", step, error)
                trainer = None  # before the next one is built: there may be no room for two
