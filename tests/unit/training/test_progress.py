"""A run reports progress within a step, with any kind of rollouts, and a failing tracker does not end it."""

from __future__ import annotations

import threading
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from steelyard.sampling.base import Decoding
from steelyard.sampling.snapshot import SnapshotSampler
from steelyard.tracking import Activity, Trackers
from steelyard.tracking.activity import PHASES
from steelyard.training.evaluation import Evaluator
from steelyard.training.loop import Trainer
from steelyard.training.rollouts import AsynchronousRollouts
from steelyard.types import Task
from tests.tiny import digit_share, tasks, tiny_trainer


class RecordingTracker:
    """Records all reported activities."""

    def __init__(self) -> None:
        self.shown: list[Activity] = []
        self.any = threading.Event()

    def progress(self, activity: Activity) -> None:
        self.shown.append(activity)
        self.any.set()

    def log(self, step: int, metrics: Any) -> None: ...

    def samples(self, step: int, shown: Any) -> None: ...

    def rewind(self, step: int) -> None: ...

    def close(self) -> None: ...

    def phases(self) -> list[str]:
        return [name for name, _ in groupby(self.shown, key=lambda activity: activity.phase)]

    def has_reward(self, phase: str) -> list[tuple[int, int]]:
        return [(activity.done, activity.total) for activity in self.shown if activity.phase == phase]


def recorded(trainer: Trainer) -> RecordingTracker:
    tracker = RecordingTracker()
    trainer.tracker = Trackers([*trainer.tracker.trackers, tracker])
    return tracker


STEP = ["sample", "verify", "score", "update", "publish"]


def test_every_phase_is_reported_with_its_counts(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, steps=2, save_every=2, evaluate_every=2)
    trainer.evaluator = Evaluator(
        trainer.parts.sampler, trainer.parts.pool, tasks(3), Decoding(max_new_tokens=6), samples=2
    )
    tracker = recorded(trainer)
    trainer.train()
    evaluation = ["evaluate", "evaluate/sample", "evaluate/verify"]
    assert tracker.phases() == [*evaluation, *STEP, *STEP, *evaluation, "save"]
    assert set(tracker.phases()) < set(PHASES)
    eight, six = [(done, 8) for done in range(9)], [(done, 6) for done in range(7)]
    assert tracker.has_reward("sample") == 2 * eight[:-1]
    assert tracker.has_reward("verify")[-1] == (8, 8)
    assert tracker.has_reward("evaluate/sample") == 2 * six[:-1]
    assert tracker.has_reward("update")[-1] == (8, 8)
    assert tracker.has_reward("score") == [(0, 0), (0, 0)], "the phase is reported without counts"


def test_minibatches_and_epochs_are_counted(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, steps=1, learner={"epochs": 2, "minibatches": 2, "microbatch_tokens": 1})
    tracker = recorded(trainer)
    trainer.train()
    learning = [activity for activity in tracker.shown if activity.phase == "update"][1:]
    assert [activity.done for activity in learning] == list(range(1, 17)), "one sample per microbatch"
    assert {activity.total for activity in learning} == {16}
    assert [activity.note for activity in learning] == [f"minibatch {1 + done // 4}/4" for done in range(16)]


def test_a_loop_that_waits_for_samples_reports_progress(tmp_path: Path) -> None:
    """The verifier answers only after progress was reported, so the test would hang without a report."""
    waited: list[bool] = []

    def patient(task: Task, text: str) -> float:
        waited.append(tracker.any.wait(60))
        return digit_share(task, text)

    trainer = tiny_trainer(tmp_path, steps=3, verifier=patient)
    trainer.parts.sampler = SnapshotSampler(trainer.policy, seed=0)
    trainer.rollouts = AsynchronousRollouts(trainer.parts, steps=trainer.settings.steps, staleness=1)
    tracker = recorded(trainer)
    trainer.train()
    assert all(waited)
    assert {"sample", "score", "update", "publish", "save"} <= set(tracker.phases()) <= {*STEP, "save"}
    assert {total for _, total in tracker.has_reward("sample")} == {8}
    assert all(0 <= done <= 8 for done, _ in tracker.has_reward("sample") + tracker.has_reward("verify"))


def test_a_tracker_that_cannot_show_progress_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(activity: Activity) -> None:
        raise RuntimeError("the screen is gone")

    trainer = tiny_trainer(tmp_path, steps=2)
    tracker = recorded(trainer)
    monkeypatch.setattr(tracker, "progress", broken)
    trainer.train()
    assert trainer.step == 2


def test_the_samples_of_the_first_step_are_logged(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, steps=5, show_every=4)
    trainer.train()
    shown = sorted(path.name for path in (tmp_path / "artifacts").glob("*.md"))
    assert shown == ["samples-00000001.md", "samples-00000004.md"]
    never = tiny_trainer(tmp_path / "never", steps=2)
    never.train()
    assert not list((tmp_path / "never").glob("artifacts/*.md"))
