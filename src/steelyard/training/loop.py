"""The loop reads like the algorithm.

draw tasks -> sample -> verify -> score (old and reference log-probs) -> credit -> update -> publish weights ->
observe -> maybe evaluate and save. It knows protocols only.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field

import numpy as np

from steelyard.checkpoint import Checkpoint, Store
from steelyard.data.base import Source
from steelyard.errors import CheckpointError
from steelyard.policies.base import Policy
from steelyard.sampling.base import Decoding, Sampler
from steelyard.tracking import Activity, Trackers, choose_shown
from steelyard.training.ahead import GRACE_SECONDS, Ahead
from steelyard.training.credit import Credit
from steelyard.training.evaluation import Evaluator
from steelyard.training.learner import AnyLearner, SampleLogps
from steelyard.training.metrics import (
    Metrics,
    floors_above_scored,
    group_metrics,
    pool_metrics,
    require_measured,
    staleness_metrics,
)
from steelyard.training.phases import Stopwatch, collect, requests_for
from steelyard.training.rollout import LearnerSample
from steelyard.training.stopping import stopping_on_signals
from steelyard.training.supports import with_supports
from steelyard.types import Group, Sample
from steelyard.verification import Pool

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of everything, and how often."""

    steps: int
    tasks_per_step: int
    group_size: int
    decoding: Decoding
    refill_dead_groups: int = 0
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
    source: Source
    sampler: Sampler
    pool: Pool
    credit: Credit
    learner: AnyLearner
    tracker: Trackers
    store: Store
    plan: Plan
    evaluator: Evaluator | None = None
    ahead: Ahead | None = None
    """Samples the next steps while this one is learnt from; None: one after the other."""
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

    def train(self) -> None:
        """Run to the last step, or until Ctrl-C, SIGTERM or SIGHUP, which finish the step and save."""
        self.stopping, saved = False, self.step
        metrics: Metrics = {}
        known: Metrics = {}
        with stopping_on_signals(self.stop), self._sampling_ahead():
            if self.step == 0 and self.plan.evaluate_every:
                self.tracker.log(0, self._evaluate())
            while self.step < self.plan.steps and not self.stopping:
                metrics = self.train_step()
                save = _due(self.step, self.plan.save_every, self.plan.steps)
                if _due(self.step, self.plan.evaluate_every, self.plan.steps) or (save and self._judged_by_evaluation):
                    metrics |= self._evaluate()
                self.tracker.log(self.step, metrics)
                known |= metrics
                if save:
                    self._save_scored(metrics)
                    saved = self.step
                    require_measured(self.plan.best_metric, known)
            if saved != self.step:  # asked to stop between two checkpoints
                self._save_scored(metrics)

    def train_step(self) -> Metrics:
        """One step of the algorithm."""
        start, watch = time.perf_counter(), Stopwatch(report=self.tracker.progress)
        groups, replaced = self.rollout(watch)
        with watch.phase("score"):
            groups = with_supports(self.policy, groups, self.learner.rule.microbatch_tokens)
            samples = [sample for group in groups for sample in group.samples]
            logps = self.learner.score(samples)
        batch = self.assign_credit(groups, samples, logps)
        with watch.phase("update"):
            update = self.learner.update(batch, self.step, watch.report)
        self.step += 1
        with watch.phase("publish"):
            self.learner.after_step(self.step)
            (self.ahead or self.sampler).publish(self.step)
        (self.ahead or self.source).observe([*replaced, *groups])
        self._report_floors([*groups, *replaced])
        metrics = group_metrics(groups, replaced) | update | pool_metrics(self.pool.metrics())
        if self.ahead is not None:
            metrics |= staleness_metrics(samples, self.step - 1)
        metrics["groups/dead"] = sum(self.credit.dead(group) for group in groups) / len(groups)
        metrics["groups/dropped"] = sum(not self.credit.kept(group) for group in groups) / len(groups)
        self.before_writing()
        if self.plan.show_every and (self.step == 1 or self.step % self.plan.show_every == 0):
            self.tracker.samples(self.step, choose_shown(groups))
        return metrics | _times(watch, time.perf_counter() - start, [*groups, *replaced])

    def rollout(self, watch: Stopwatch | None = None) -> tuple[list[Group], list[Group]]:
        """Groups of this step in slot order; those with nothing to learn from (no advantage differs from zero, or too
        few are scored) are replaced by groups of other tasks, as often as the plan says. Also the groups so replaced.
        """
        watch = watch or Stopwatch()
        if self.ahead is not None:
            return self.ahead.take(self.step, watch)
        tasks = self.source.draw(self.step, self.plan.tasks_per_step)
        requests = requests_for(tasks, self.step, self.plan.group_size)
        groups = collect(self.sampler, self.pool, requests, self.plan.decoding, watch)
        replaced: list[Group] = []
        for attempt in range(1, self.plan.refill_dead_groups + 1):
            dead = [slot for slot, group in enumerate(groups) if self.credit.dead(group)]
            if not dead:
                break
            tasks = self.source.draw(self.step, len(dead))
            requests = requests_for(tasks, self.step, self.plan.group_size, slots=dead, attempt=attempt)
            for slot, group in zip(
                dead, collect(self.sampler, self.pool, requests, self.plan.decoding, watch), strict=True
            ):
                replaced.append(groups[slot])
                groups[slot] = group
        return groups, replaced

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

    def _report_floors(self, groups: Sequence[Group]) -> None:
        """Warn once of a declared floor that pays more than a scored sample got."""
        if not self.floors_reported and (found := floors_above_scored(groups)):
            self.floors_reported = True
            log.warning("%s", found[0])

    def _evaluate(self) -> dict[str, float]:
        if self.evaluator is None:
            return {}
        start = time.perf_counter()
        self.tracker.progress(Activity("evaluate"))
        with self.ahead.paused() if self.ahead is not None else nullcontext():
            figures = self.evaluator.run(self.tracker.progress).metrics()
        return figures | {"time/evaluate": time.perf_counter() - start}

    # --- state ---------------------------------------------------------------------------------------------------

    @property
    def _judged_by_evaluation(self) -> bool:
        """Whether a checkpoint needs an evaluation of its own to be ranked."""
        return self.evaluator is not None and (self.plan.best_metric or "").startswith("eval/")

    def _save_scored(self, metrics: Metrics) -> None:
        score = metrics.get(self.plan.best_metric or "")
        self.save(score if isinstance(score, int | float) else None)

    def save(self, score: float | None = None) -> None:
        """Write the whole state of the run."""
        self.tracker.progress(Activity("save"))
        parts = self.learner.parts()
        state = {"step": self.step, "source": (self.ahead or self.source).state_dict(), **parts.state}
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
        (self.ahead or self.source).load_state_dict(state["source"])
        self.step = int(state["step"])
        (self.ahead or self.sampler).publish(self.step)
        self.store.rewind(self.step)
        self.tracker.rewind(self.step)

    def close(self) -> None:
        """Close all that was opened for the run, whatever one of the parts says."""
        self.opened.close()

    @contextmanager
    def _sampling_ahead(self) -> Iterator[None]:
        """However the run ends, nothing is sampled for it any more."""
        grace = None
        try:
            yield
        except KeyboardInterrupt:
            grace = GRACE_SECONDS
            raise
        finally:
            if self.ahead is not None:
                self.ahead.close(grace)

    def stop(self) -> None:
        """Ask for a stop after the step at hand."""
        self.stopping = True

    @property
    def stopped(self) -> bool:
        """Whether the run was asked to stop before its last step."""
        return self.stopping and self.step < self.plan.steps


def _due(step: int, every: int, last: int) -> bool:
    """At every N-th step and at the last one; N = 0 leaves only the last."""
    return step == last or (every > 0 and step % every == 0)


def _times(watch: Stopwatch, total: float, sampled: Sequence[Group]) -> dict[str, float]:
    tokens = sum(len(sample.completion_ids) for group in sampled for sample in group.samples)
    times = {f"time/{name}": seconds for name, seconds in watch.seconds.items()}
    sampling = max(watch.seconds.get("sample", 0.0), 1e-9)
    return times | {
        "time/step": total,
        "time/tokens_per_second": tokens / max(total, 1e-9),
        "time/sample_tokens_per_second": tokens / sampling,
    }
