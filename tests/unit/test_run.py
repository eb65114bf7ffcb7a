"""A run that loses its learner restarts from its last checkpoint, but not forever, and not after a stop request."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard import config as configs
from steelyard import run as running
from steelyard.compose import NOTHING_SUPPLIED
from steelyard.errors import LostLearnerError
from steelyard.folders import RunLock
from steelyard.training.loop import Trainer
from tests.tiny import tiny_trainer

STEPS = 6
CONFIG = configs.load("text", {"model.path": "unused", "tasks.file": "unused", "verify.verifier": "unused:score"})
Trouble = Callable[[Trainer, int], None]
"""Called in each step of the n-th trainer, before the update."""


class Run:
    """Calls ``run_locked`` with fake trainers whose learners fail."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, trouble: Trouble, save_every: int = 2) -> None:
        self.folder, self.trouble, self.save_every = folder, trouble, save_every
        self.built = 0
        self.lost_while_building: set[int] = set()
        self.trainers: list[weakref.ref[Any]] = []
        monkeypatch.setattr(running.log, "disabled", True)  # pytest keeps log records, including error frames
        monkeypatch.setattr(running, "start_run", lambda *_: self.build())
        monkeypatch.setattr(running, "resume_run", lambda *_: self.build())

    def build(self) -> Trainer:
        gc.collect()
        assert not any(one() for one in self.trainers), "the previous trainer was freed"
        self.built += 1
        if self.built in self.lost_while_building:
            raise LostLearnerError("rank 1 was lost while the learner group was starting")
        trainer = tiny_trainer(self.folder, steps=STEPS, save_every=self.save_every)
        self.trainers.append(weakref.ref(trainer.learner))
        update, number = trainer.learner.update, self.built

        def troubled(*arguments: Any) -> Any:
            self.trouble(trainer, number)
            return update(*arguments)

        trainer.learner.update = troubled  # type: ignore[method-assign]
        if (checkpoint := trainer.store.latest()) is not None:
            trainer.restore(checkpoint)
        return trainer

    def go(self) -> Trainer:
        with RunLock(self.folder / "run") as lock:
            return running.run_locked(lock, CONFIG, NOTHING_SUPPLIED, resume=False)


def lose_at(*steps: int) -> Trouble:
    """Make the n-th trainer lose its learner at the n-th of these steps; later trainers do not fail."""

    def trouble(trainer: Trainer, number: int) -> None:
        if number <= len(steps) and trainer.step == steps[number - 1]:
            raise LostLearnerError("rank 0 was lost")

    return trouble


def test_a_run_is_restarted_as_long_as_it_makes_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, monkeypatch, lose_at(1, 2, 3, 4, 5, 5, 5))
    assert run.go().step == STEPS
    assert run.built == 8


def test_repeated_losses_at_the_same_step_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeating the steps since the checkpoint does not count as progress."""
    run = Run(tmp_path, monkeypatch, lose_at(*[3] * 50))
    with pytest.raises(LostLearnerError, match="rank 0"):
        run.go()
    assert run.built == 4


def test_a_loss_during_a_restart_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, monkeypatch, lose_at(3))
    run.lost_while_building = {2, 3}
    assert run.go().step == STEPS
    assert run.built == 4


def test_repeated_losses_during_restarts_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, monkeypatch, lose_at(3))
    run.lost_while_building = set(range(2, 50))
    with pytest.raises(LostLearnerError, match="was starting"):
        run.go()
    assert run.built == 4


def test_a_run_that_never_started_is_not_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, monkeypatch, lose_at())
    run.lost_while_building = {1}
    with pytest.raises(LostLearnerError, match="was starting"):
        run.go()
    assert run.built == 1


@pytest.mark.parametrize("step", [3, STEPS - 1])
def test_a_loss_after_a_stop_request_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    def trouble(trainer: Trainer, _number: int) -> None:
        if trainer.step == step:
            trainer.stopping = True
            raise LostLearnerError("rank 0 was lost")

    run = Run(tmp_path, monkeypatch, trouble)
    with pytest.raises(LostLearnerError, match="rank 0"):
        run.go()
    assert run.built == 1
