"""The training loop.

Every step takes groups (draw tasks, sample, verify), scores them (old and reference log-probs), assigns credit, updates
the policy, publishes the new weights and reports the groups to the task source. Evaluations and checkpoints follow when
they are due. The loop depends on protocols only, never on a particular domain, sampler or cluster.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np

from steelyard.checkpoint import Checkpoint, Store
from steelyard.errors import CheckpointError
from steelyard.policies.base import Policy
from steelyard.tracking import Activity, Trackers, select_samples
from steelyard.training.credit import Credit
from steelyard.training.evaluation import Evaluator
from steelyard.training.learner import AnyLearner, SampleLogps
from steelyard.training.learner_samples import LearnerSample
from steelyard.training.metrics import (
    Metrics,
    floors_above_scored,
    group_metrics,
    require_logged,
)
from steelyard.training.phases import Stopwatch
from steelyard.training.rollouts import RolloutParts, Rollouts
from steelyard.training.stopping import stopping_on_signals
from steelyard.training.supports import with_supports
from steelyard.types import Group, GroupSummary, Sample

log = logging.getLogger(__name__)

GRACE_SECONDS = 2.0
"""How long an interrupted run waits for unfinished rollouts."""


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """The number of training steps, and how often to evaluate, save and log samples."""

    steps: int
    evaluate_every: int = 0
    """Evaluate every N steps and after the last one; with 0, only after the last one."""
    save_every: int = 0
    """Save a checkpoint every N steps and after the last one; with 0, only after the last one."""
    show_every: int = 0
    """Log samples after the first step and every N steps; with 0, never."""
    best_metric: str | None = None
    """The metric that ranks checkpoints."""


def _no_check() -> None:
    """Default for ``Trainer.before_writing``: check nothing."""


@dataclass(slots=True)
class Trainer:
    """Trains one run. Build a trainer with ``steelyard.compose``, or construct one from your own components."""

    policy: Policy
    rollouts: Rollouts
    credit: Credit
    learner: AnyLearner
    tracker: Trackers
    store: Store
    settings: LoopSettings
    evaluator: Evaluator | None = None
    opened: ExitStack = field(default_factory=ExitStack)
    """Resources opened for this run; ``close`` closes them."""
    step: int = 0
    """Number of completed steps."""
    stopping: bool = False
    """Whether a stop after the current step was requested."""
    floors_reported: bool = False
    """Whether the warning about a floor above a scored reward was logged."""
    before_writing: Callable[[], None] = _no_check
    """Called before each step writes anything; raises an error if the run folder was moved or replaced."""

    @property
    def parts(self) -> RolloutParts:
        """The task source, sampler and verification pool of the rollouts."""
        return self.rollouts.parts

    def train(self) -> None:
        """Train until the last step. Ctrl-C, SIGTERM and SIGHUP finish the current step, save and stop."""
        self.stopping, saved, settings = False, self.step, self.settings
        metrics: Metrics = {}
        logged: Metrics = {}
        with stopping_on_signals(self.stop), self._closing_rollouts():
            if self.step == 0 and settings.evaluate_every:
                self.tracker.log(0, self._evaluate())
            while self.step < settings.steps and not self.stopping:
                metrics = self.train_step()
                save = _due(self.step, settings.save_every, settings.steps)
                if _due(self.step, settings.evaluate_every, settings.steps) or (save and self._ranked_by_evaluation):
                    metrics |= self._evaluate()
                self.tracker.log(self.step, metrics)
                logged |= metrics
                if save:
                    self._save_ranked(metrics)
                    saved = self.step
                    require_logged(settings.best_metric, logged)
            if saved != self.step:  # stopped between checkpoints
                self._save_ranked(metrics)

    def train_step(self) -> Metrics:
        """Run one step of the algorithm and return its metrics."""
        start, watch = time.perf_counter(), Stopwatch(report=self.tracker.progress)
        taken = self.rollouts.take(self.step, watch)
        with watch.phase("score"):
            groups = self.rollouts.fetch(taken.groups)
            groups = with_supports(self.policy, groups, self.learner.rule.microbatch_tokens)
            rows = [row for group in groups for sample in group.samples for row in sample.rows]
            logps = self.learner.score(rows)
        batch = self.assign_credit(groups, rows, logps)
        with watch.phase("update"):
            update = self.learner.update(batch, self.step, watch.report)
        self.step += 1
        with watch.phase("publish"):
            self.learner.after_step(self.step)
            self.rollouts.publish(self.step)
        sampled = [*taken.replaced, *taken.groups]
        self.rollouts.observe(sampled)
        self._report_floors(sampled)
        metrics = group_metrics(*taken) | update | self.rollouts.metrics()
        metrics["groups/dead"] = sum(self.credit.dead(group) for group in groups) / len(groups)
        metrics["groups/dropped"] = sum(not self.credit.kept(group) for group in groups) / len(groups)
        self.before_writing()
        if self.settings.show_every and (self.step == 1 or self.step % self.settings.show_every == 0):
            self.tracker.samples(self.step, select_samples(groups))
        return metrics | _times(watch, time.perf_counter() - start, sampled)

    def assign_credit(self, groups: Sequence[Group], rows: Sequence[Sample], logps: SampleLogps) -> list[LearnerSample]:
        """Compute advantages and combine them with the log-probs, for all samples to learn from.

        ``rows`` are the rows of all samples, in the order of the log-probs.
        """
        places = [id(row) for row in rows]
        old = dict(zip(places, logps.old, strict=True)) if logps.old else {}
        reference = dict(zip(places, logps.reference, strict=True)) if logps.reference else {}
        coefficient = self.learner.kl_coefficient(self.step)

        def penalty(row: Sample) -> np.ndarray:
            """Return the KL penalty of each decision: the coefficient times k1."""
            return coefficient * (old[id(row)] - reference[id(row)])

        penalties = penalty if self.learner.kl_in_reward else None
        return [
            LearnerSample(row, item.advantage_N, old.get(id(row)), reference.get(id(row)), item.number)
            for item in self.credit.assign(groups, penalties=penalties)
            for row in (item.sample,)
        ]

    def _report_floors(self, groups: Sequence[GroupSummary]) -> None:
        """Warn once if a rejected sample's declared floor exceeds the reward of a scored sample."""
        if not self.floors_reported and (violations := floors_above_scored(groups)):
            self.floors_reported = True
            log.warning("%s", violations[0])

    def _evaluate(self) -> dict[str, float]:
        if self.evaluator is None:
            return {}
        start = time.perf_counter()
        self.tracker.progress(Activity("evaluate"))
        with self.rollouts.paused():
            metrics = self.evaluator.run(self.tracker.progress).metrics()
        return metrics | {"time/evaluate": time.perf_counter() - start}

    # --- state ---------------------------------------------------------------------------------------------------

    @property
    def _ranked_by_evaluation(self) -> bool:
        """Whether checkpoints are ranked by an evaluation metric, so that every checkpoint needs an evaluation."""
        return self.evaluator is not None and (self.settings.best_metric or "").startswith("eval/")

    def _save_ranked(self, metrics: Metrics) -> None:
        score = metrics.get(self.settings.best_metric or "")
        self.save(score if isinstance(score, int | float) else None)

    def save(self, score: float | None = None) -> None:
        """Save a checkpoint with the complete state of the run; ``score`` ranks it against other checkpoints."""
        self.tracker.progress(Activity("save"))
        parts = self.learner.checkpoint_parts()
        state = {"step": self.step, "source": self.rollouts.state_dict(), **parts.state}
        try:
            self.store.save(self.step, folders=parts.folders, tensors=parts.tensors, state=state, score=score)
        except CheckpointError:
            self.before_writing()  # raises a clearer error if the folder is gone
            raise

    def restore(self, checkpoint: Checkpoint) -> None:
        """Load the state of a checkpoint and discard metrics and checkpoints of later steps."""
        state = checkpoint.state
        self.tracker.progress(Activity("restore"))
        self.learner.restore(checkpoint)
        self.rollouts.load_state_dict(state["source"])
        self.step = int(state["step"])
        self.rollouts.publish(self.step)
        self.store.rewind(self.step)
        self.tracker.rewind(self.step)

    def close(self) -> None:
        """Close all resources of the run, even if closing one of them fails."""
        self.opened.close()

    @contextmanager
    def _closing_rollouts(self) -> Iterator[None]:
        """Close the rollouts when training ends, however it ends."""
        grace = None
        try:
            yield
        except KeyboardInterrupt:
            grace = GRACE_SECONDS
            raise
        finally:
            self.rollouts.close(grace)

    def stop(self) -> None:
        """Request a stop after the current step."""
        self.stopping = True

    @property
    def stopped(self) -> bool:
        """Whether the run stopped before its last step because a stop was requested."""
        return self.stopping and self.step < self.settings.steps


def _due(step: int, every: int, last: int) -> bool:
    """Return whether ``step`` is the last one or a multiple of ``every``; 0 means only the last one."""
    return step == last or (every > 0 and step % every == 0)


def _times(watch: Stopwatch, total: float, sampled: Sequence[GroupSummary]) -> dict[str, float]:
    tokens = sum(sample.length for group in sampled for sample in group.samples)
    times = {f"time/{name}": seconds for name, seconds in watch.seconds.items()}
    sampling = max(watch.seconds.get("sample", 0.0), 1e-9)
    return times | {
        "time/step": total,
        "time/tokens_per_second": tokens / max(total, 1e-9),
        "time/sample_tokens_per_second": tokens / sampling,
    }
