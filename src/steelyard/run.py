"""Training a run to its end."""

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
        supplied = with_domain(config, supplied)
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


def run_and_report(config: Config, supplied: Supplied, *, resume: bool, overwrite: bool = False) -> None:
    """A run from Python. If a signal has stopped it, it says how to resume, as the command line does."""
    folder, needed = run_folder(config), config.run.supplied
    given = "".join(f", {part}=…" for part in needed)
    again = f"steelyard.open_run({str(folder)!r}{given}).resume()" if needed else resume_command(folder)
    try:
        trainer = run(config, supplied, resume=resume, overwrite=overwrite)
    except KeyboardInterrupt:
        if (folder / "config.toml").exists():
            _tell(f"stopped now. The run is in {folder}; resume with:\n  {again}")
        raise
    except StoppedError as error:
        error.add_note(f"The run is in {folder}; resume with: {again}")
        raise
    if trainer.stopped:
        _tell(
            f"stopped after step {trainer.step} of {trainer.settings.steps}; everything is saved. Resume with:\n"
            f"  {again}"
        )


def _tell(line: str) -> None:
    with suppress(OSError):  # the run is what counts, whoever reads of it
        print(line, file=sys.stderr, flush=True)
