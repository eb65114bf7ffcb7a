"""The loop reads like the algorithm.

take groups (draw, sample, verify) -> score (old and reference log-probs) -> credit -> update -> publish weights ->
observe -> maybe evaluate and save. It knows protocols only.
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
from steelyard.tracking import Activity, Trackers, choose_shown
from steelyard.training.credit import Credit
from steelyard.training.evaluation import Evaluator
from steelyard.training.learner import AnyLearner, SampleLogps
from steelyard.training.learner_samples import LearnerSample
from steelyard.training.metrics import (
    Metrics,
    floors_above_scored,
    group_metrics,
    require_measured,
)
from steelyard.training.phases import Stopwatch
from steelyard.training.rollouts import RolloutParts, Rollouts
from steelyard.training.stopping import stopping_on_signals
from steelyard.training.supports import with_supports
from steelyard.types import Group, GroupSummary, Sample

log = logging.getLogger(__name__)

GRACE_SECONDS = 2.0
"""How long an interrupted run waits for rollouts that are under way."""


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """How many steps, and how often the loop evaluates, saves and shows samples (0: at the end only, or never)."""

    steps: int
    evaluate_every: int = 0
    save_every: int = 0
    show_every: int = 0
    best_metric: str | None = None


def _nothing() -> None:
    """Nothing is checked before a run writes, unless whoever owns its folder says so."""


@dataclass(slots=True)
class Trainer:
    """One run. Build it with ``steelyard.compose``, or by hand from parts of your own."""

    policy: Policy
    rollouts: Rollouts
    credit: Credit
    learner: AnyLearner
    tracker: Trackers
    store: Store
    settings: LoopSettings
    evaluator: Evaluator | None = None
    opened: ExitStack = field(default_factory=ExitStack)
    """What ``close`` closes: the parts that were opened for this run."""
    step: int = 0
    """Steps done."""
    stopping: bool = False
    """It was asked to stop after the step at hand."""
    floors_reported: bool = False
    """A declared floor above a scored reward was warned of."""
    before_writing: Callable[[], None] = _nothing
    """Called in every step before anything is written; raises if the run's folder is not what it was."""

    @property
    def parts(self) -> RolloutParts:
        """What its groups are made with: tasks, sampler, verification pool."""
        return self.rollouts.parts

    def train(self) -> None:
        """Run to the last step, or until Ctrl-C, SIGTERM or SIGHUP, which finish the step and save."""
        self.stopping, saved, settings = False, self.step, self.settings
        metrics: Metrics = {}
        known: Metrics = {}
        with stopping_on_signals(self.stop), self._closing_rollouts():
            if self.step == 0 and settings.evaluate_every:
                self.tracker.log(0, self._evaluate())
            while self.step < settings.steps and not self.stopping:
                metrics = self.train_step()
                save = _due(self.step, settings.save_every, settings.steps)
                if _due(self.step, settings.evaluate_every, settings.steps) or (save and self._judged_by_evaluation):
                    metrics |= self._evaluate()
                self.tracker.log(self.step, metrics)
                known |= metrics
                if save:
                    self._save_scored(metrics)
                    saved = self.step
                    require_measured(settings.best_metric, known)
            if saved != self.step:  # asked to stop between two checkpoints
                self._save_scored(metrics)

    def train_step(self) -> Metrics:
        """One step of the algorithm."""
        start, watch = time.perf_counter(), Stopwatch(report=self.tracker.progress)
        taken = self.rollouts.take(self.step, watch)
        with watch.phase("score"):
            groups = self.rollouts.fetch(taken.groups)
            groups = with_supports(self.policy, groups, self.learner.rule.microbatch_tokens)
            samples = [sample for group in groups for sample in group.samples]
            logps = self.learner.score(samples)
        batch = self.assign_credit(groups, samples, logps)
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
            self.tracker.samples(self.step, choose_shown(groups))
        return metrics | _times(watch, time.perf_counter() - start, sampled)

    def assign_credit(
        self, groups: Sequence[Group], samples: Sequence[Sample], logps: SampleLogps
    ) -> list[LearnerSample]:
        """Advantages of the samples that are learnt from, joined with their log-probs."""
        old = dict(zip((sample.key for sample in samples), logps.old, strict=True)) if logps.old else {}
        reference = (
            dict(zip((sample.key for sample in samples), logps.reference, strict=True)) if logps.reference else {}
        )
        coefficient = self.learner.kl_coefficient(self.step)

        def penalty(sample: Sample) -> np.ndarray:
            """KL in the reward: the coefficient times k1, at each decision."""
            return coefficient * (old[sample.key] - reference[sample.key])

        penalties = penalty if self.learner.kl_in_reward else None
        credited = self.credit.assign(groups, penalties=penalties)
        return [
            LearnerSample(item.sample, item.advantage_N, old.get(item.sample.key), reference.get(item.sample.key))
            for item in credited
        ]

    def _report_floors(self, groups: Sequence[GroupSummary]) -> None:
        """Warn once of a declared floor that pays more than a scored sample got."""
        if not self.floors_reported and (found := floors_above_scored(groups)):
            self.floors_reported = True
            log.warning("%s", found[0])

    def _evaluate(self) -> dict[str, float]:
        if self.evaluator is None:
            return {}
        start = time.perf_counter()
        self.tracker.progress(Activity("evaluate"))
        with self.rollouts.paused():
            figures = self.evaluator.run(self.tracker.progress).metrics()
        return figures | {"time/evaluate": time.perf_counter() - start}

    # --- state ---------------------------------------------------------------------------------------------------

    @property
    def _judged_by_evaluation(self) -> bool:
        """Whether a checkpoint needs an evaluation of its own to be ranked."""
        return self.evaluator is not None and (self.settings.best_metric or "").startswith("eval/")

    def _save_scored(self, metrics: Metrics) -> None:
        score = metrics.get(self.settings.best_metric or "")
        self.save(score if isinstance(score, int | float) else None)

    def save(self, score: float | None = None) -> None:
        """Write the whole state of the run."""
        self.tracker.progress(Activity("save"))
        parts = self.learner.parts()
        state = {"step": self.step, "source": self.rollouts.state_dict(), **parts.state}
        try:
            self.store.save(self.step, folders=parts.folders, tensors=parts.tensors, state=state, score=score)
        except CheckpointError:
            self.before_writing()  # a folder that is gone explains it better
            raise

    def restore(self, checkpoint: Checkpoint) -> None:
        """Take up a saved state; what was logged after it is forgotten."""
        state = checkpoint.state
        self.tracker.progress(Activity("restore"))
        self.learner.restore(checkpoint)
        self.rollouts.load_state_dict(state["source"])
        self.step = int(state["step"])
        self.rollouts.publish(self.step)
        self.store.rewind(self.step)
        self.tracker.rewind(self.step)

    def close(self) -> None:
        """Close all that was opened for the run, whatever one of the parts says."""
        self.opened.close()

    @contextmanager
    def _closing_rollouts(self) -> Iterator[None]:
        """However training ends, nothing more is sampled for it."""
        grace = None
        try:
            yield
        except KeyboardInterrupt:
            grace = GRACE_SECONDS
            raise
        finally:
            self.rollouts.close(grace)

    def stop(self) -> None:
        """Ask for a stop after the step at hand."""
        self.stopping = True

    @property
    def stopped(self) -> bool:
        """Whether the run was asked to stop before its last step."""
        return self.stopping and self.step < self.settings.steps


def _due(step: int, every: int, last: int) -> bool:
    """At every N-th step and at the last one; N = 0 leaves only the last."""
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
