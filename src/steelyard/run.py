"""Train a run to completion."""

from __future__ import annotations

import logging
import sys
from contextlib import closing, suppress

from steelyard.compose import Supplied, resume_run, start_run, with_domain
from steelyard.config import Config
from steelyard.errors import LostLearnerError, StoppedError
from steelyard.folders import RunLock, resume_command, run_folder
from steelyard.quiet import quiet_engines
from steelyard.training.loop import Trainer

log = logging.getLogger(__name__)


MAX_FAILED_RESTARTS = 3
"""Maximum number of consecutive restarts after losing a learner without any progress."""


def run(config: Config, supplied: Supplied, *, resume: bool, overwrite: bool = False) -> Trainer:
    """Start or resume a run and train it to completion. The run folder is locked against other processes.

    ``overwrite`` first removes the existing run.
    """
    with RunLock(run_folder(config)) as lock:
        if overwrite:
            lock.clear()
        return run_locked(lock, config, supplied, resume=resume)


def run_locked(lock: RunLock, config: Config, supplied: Supplied, *, resume: bool) -> Trainer:
    """Start or resume a run in a locked folder, train it, and close everything on exit.

    If a learner process is lost, the run restarts from its last checkpoint, unless a stop was requested or
    ``MAX_FAILED_RESTARTS`` restarts in a row made no progress.
    """
    with quiet_engines():
        supplied = with_domain(config, supplied)
        trainer: Trainer | None = (resume_run if resume else start_run)(config, supplied)
        furthest, failed_restarts = trainer.step, 0
        while True:
            try:
                trainer = trainer or resume_run(config, supplied)
                trainer.before_writing = lock.require_in_place
                with closing(trainer):
                    trainer.train()
                return trainer
            except LostLearnerError as error:
                step = furthest if trainer is None else trainer.step
                failed_restarts = 0 if step > furthest else failed_restarts + 1
                furthest = max(furthest, step)
                if failed_restarts >= MAX_FAILED_RESTARTS or (trainer is not None and trainer.stopping):
                    raise
                log.warning("step %d: %s", step, error)
                trainer = None  # free the old trainer first: two may not fit in memory


def run_and_report(config: Config, supplied: Supplied, *, resume: bool, overwrite: bool = False) -> None:
    """Run from Python. Print where the run is or, if a signal stopped it, how to resume it."""
    folder, needed = run_folder(config), config.run.supplied
    given = "".join(f", {part}=…" for part in needed)
    again = f"steelyard.open_run({str(folder)!r}{given}).resume()" if needed else resume_command(folder)
    try:
        trainer = run(config, supplied, resume=resume, overwrite=overwrite)
    except KeyboardInterrupt:
        if (folder / "config.toml").exists():
            _tell(f"stopped immediately. The run is in {folder}; resume with:\n  {again}")
        raise
    except StoppedError as error:
        error.add_note(f"The run is in {folder}; resume with: {again}")
        raise
    if trainer.stopped:
        _tell(
            f"stopped after step {trainer.step} of {trainer.settings.steps}; everything is saved. Resume with:\n"
            f"  {again}"
        )
    elif config.tracking.console:
        _tell(f"done: {trainer.step} steps, in {folder}")


def _tell(line: str) -> None:
    with suppress(OSError):  # a failed print must not abort the run
        print(line, file=sys.stderr, flush=True)
