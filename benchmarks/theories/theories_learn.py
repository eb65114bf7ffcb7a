"""Starting from random theories, few of which succeed, a policy learns consistent theories for unseen gauge groups.

The domain's verifier defines success (``success.py``). Training stops at its step limit or its time limit. The held-out
groups are evaluated before and after training, and during training for the curve only. Besides success, the figures
count distinct successes in a thousand samples, with and without vector-like pairs. A second run extends the Standard
Model.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.progress import Progress

from benchmarks.framework.parallel_runs import ReportProgress, run_in_parallel
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.training_runs import CurvePoint, EvaluationPlan, load_recipe, train_and_evaluate
from steelyard.domains.theories.comparison.canonical_form import canonical
from steelyard.domains.theories.comparison.catalogue import count_distinct, group_name
from steelyard.domains.theories.grammar.starting_points import standard_model_text
from steelyard.domains.theories.grammar.text import read, with_line_breaks
from steelyard.domains.theories.model.known_models import standard_model
from steelyard.domains.theories.model.theory import Theory
from steelyard.domains.theories.physics.mass_spectrum import spectrum
from steelyard.training.evaluation import Evaluation
from steelyard.types import Group

SEEDS = (0, 1, 2)
MINUTES = 50.0
"""Training time limit per seed, excluding the warm start; two seeds run at the same time, on one core each."""
EXTENSION_MINUTES = 30.0
EVALUATE_EVERY = 20
SAMPLES = 1000
"""Total number of samples over all held-out groups at the end."""
SAMPLES_DURING = 128
"""Total number of samples over all held-out groups at each evaluation during training."""
START, TARGET, DISTINCT, EXTENSIONS, SHOWN = 0.05, 0.8, 300, 100, 10
EXTENDING: dict[str, Any] = {
    "domain.options.kinds": ["model"],
    "domain.options.required_factors": [],
    "domain.options.curriculum_tasks": 0,
    "domain.options.limits.abelian": 1,
    "domain.options.limits.dimension": 15,
    "domain.options.limits.states": 24,
    "domain.options.limits.scalars": 3,
    "domain.options.limits.multiplets": 11,
    "domain.options.limits.terms": 9,
    "domain.options.max_example_words": 110,
    "domain.options.reward.max_words": 110,
    "domain.options.reward.variety": 5,
    "domain.options.reward.vector_like": True,
    "evaluate.temperature": 1.0,
    "loss.entropy.coefficient": 0.05,
    "model.scratch.max_length": 160,
    "sampling.max_new_tokens": 130,
    "sampling.tasks_per_step": 4,
}
"""Recipe overrides for the Standard Model."""


@dataclass(frozen=True)
class LearningRun:
    """One run: held-out evaluations before and after training, and the curve between them."""

    seed: int
    before: Evaluation
    after: Evaluation
    curve: list[dict[str, Cell]]
    warm_minutes: float

    @property
    def distinct_successes(self) -> tuple[int, int]:
        """Count distinct final successes, with and without their vector-like pairs."""
        found = successes(self.after.groups)
        return count_distinct(found), count_distinct(found, vector_like=False)

    @property
    def samples(self) -> int:
        return sum(len(group.samples) for group in self.after.groups)

    @property
    def reached(self) -> float:
        """The success rate of the final samples."""
        return len(successes(self.after.groups)) / self.samples


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version takes a few steps on few small gauge groups, and the reward must rise."""
    if quick:
        return _quick(progress)
    longest = {"extensions": Job(0, EXTENDING, EXTENSION_MINUTES)}
    jobs = longest | {f"seed {seed}": Job(seed) for seed in SEEDS}
    every: list[LearningRun] = []
    for run in run_in_parallel(learn_job, jobs, progress, MINUTES):
        every.append(run)
        progress.console.print(summary(run))
    extended, *runs = every
    rows = [{"run": name, **row} for name, run in zip(jobs, every, strict=True) for row in run.curve]
    return Result("theories-learn", figures(runs, extended), rows, note(runs, extended))


@dataclass(frozen=True)
class Job:
    """The settings of one run."""

    seed: int
    changes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    minutes: float = MINUTES


def learn_job(job: Job, report_progress: ReportProgress) -> LearningRun:
    with tempfile.TemporaryDirectory() as scratch:
        return learn(job.seed, scratch, job.changes, job.minutes, report_progress)


def learn(
    seed: int,
    scratch: str,
    overrides: Mapping[str, Any],
    minutes: float,
    report_progress: ReportProgress,
    *,
    samples: int = SAMPLES,
) -> LearningRun:
    """Warm-start, then train until the recipe's last step or until ``minutes`` have passed."""
    from steelyard.compose import tasks_of_split

    config = load_recipe("theories", seed, scratch, overrides)
    tasks = len(tasks_of_split(config, "held_out"))
    plan = EvaluationPlan(-(-samples // tasks), -(-SAMPLES_DURING // tasks), EVALUATE_EVERY, "held_out")
    run = train_and_evaluate(config, plan, minutes, report_progress)
    return LearningRun(seed, run.before, run.after, [row_of(seed, point) for point in run.curve], run.warm_minutes)


def share_distinct(found: Evaluation) -> float:
    """Return distinct successes divided by all samples, ignoring vector-like pairs."""
    samples = sum(len(group.samples) for group in found.groups)
    return count_distinct(successes(found.groups), vector_like=False) / samples


def row_of(seed: int, point: CurvePoint) -> dict[str, Cell]:
    return point.row(seed, "held-out success") | {
        "distinct successes": share_distinct(point.evaluation),
        "fermion contents": contents(point.evaluation.groups),
        "entropy": point.metrics.get("entropy", float("nan")),
        "reward": point.evaluation.reward.mean,
    }


def successes(groups: Sequence[Group]) -> list[Theory]:
    """Return the theories that the verifier counts as successes."""
    return [
        read(sample.text)
        for group in groups
        for sample, verdict in zip(group.samples, group.verdicts, strict=True)
        if verdict.success
    ]


def contents(groups: Sequence[Group]) -> int:
    """Count the distinct chiral fermion contents of the successes, ignoring scalars, vacuum and terms."""
    return len({canonical(own, vector_like=False, scalars=False, terms=False) for own in successes(groups)})


def figures(runs: Sequence[LearningRun], extended: LearningRun) -> tuple[Figure, ...]:
    starts = [run.before.success.mean for run in runs]
    ends = [run.reached for run in runs]
    name = "distinct successes in 1,000 samples"
    counts = {
        name: [run.distinct_successes[0] * SAMPLES / run.samples for run in runs],
        f"{name}, without vector-like pairs": [run.distinct_successes[1] * SAMPLES / run.samples for run in runs],
    }
    return (
        Figure("held-out success before training", max(starts), "<=", START, spread=max(starts) - min(starts)),
        Figure("held-out success", min(ends), ">=", TARGET, spread=max(ends) - min(ends)),
        *(Figure(name, min(own), ">=", DISTINCT, spread=max(own) - min(own)) for name, own in counts.items()),
        Figure(
            "distinct extensions of the Standard Model", float(len(extensions(extended.after.groups))), ">=", EXTENSIONS
        ),
    )


def summary(run: LearningRun) -> str:
    """Summarise a run in one line, with 95% intervals over gauge groups."""
    before, after = (
        f"{e.success.mean:.3f} ({e.success.low:.3f}–{e.success.high:.3f})" for e in (run.before, run.after)
    )
    every, chiral = run.distinct_successes
    return (
        f"seed {run.seed}: {before} to {after} after {float(run.curve[-1]['minutes']):.1f} minutes and "
        f"{run.curve[-1]['step']} steps (warm start {run.warm_minutes:.1f} minutes); {every} distinct successes in "
        f"{run.samples} samples, {chiral} without vector-like pairs, {contents(run.after.groups)} if only chiral "
        f"fermions are compared ({by_gauge_group(run.after.groups)})"
    )


def by_gauge_group(groups: Sequence[Group]) -> str:
    """List the success rate for each gauge group."""
    return ", ".join(
        f"{group_name(canonical(read(group.samples[0].text)))} {len(successes([group])) / len(group.samples):.3f}"
        for group in groups
    )


def note(runs: Sequence[LearningRun], extended: LearningRun) -> str:
    """Summarise each run in one line, and list the shortest extensions in a table."""
    return "\n".join(
        [
            "Held-out success before and after:",
            "",
            *(f"- {summary(run)}" for run in runs),
            f"- extensions of the Standard Model, {summary(extended)}",
            "",
            f"The {SHOWN} shortest extensions: what they add, and their lightest new state with charge or colour:",
            "",
            "| added | lightest new state |",
            "|---|---|",
            *(f"| {added(text)} | {lightest_exotic(text)} |" for text in extensions(extended.after.groups)[:SHOWN]),
        ]
    )


def added(text: str) -> str:
    """List the multiplets and terms that are not in the Standard Model."""
    known = with_line_breaks(standard_model_text()).splitlines()
    return ", ".join(f"`{line}`" for line in with_line_breaks(text).splitlines() if line not in known)


def lightest_exotic(text: str) -> str:
    masses = [state.mass for state in spectrum(read(text)).states if state.exotic]
    return f"{min(masses):.0f} GeV" if masses else "none"


def extensions(groups: Sequence[Group]) -> list[str]:
    """Return one text per distinct success that differs from the Standard Model, shortest first.

    Theories that differ only by a singlet count as equal.
    """
    texts = {
        sample.text
        for group in groups
        for sample, verdict in zip(group.samples, group.verdicts, strict=True)
        if verdict.success
    }
    shortest_last = sorted(texts, key=lambda text: (len(text.split()), text), reverse=True)
    kept = {canonical(read(text)): text for text in shortest_last}
    kept.pop(canonical(standard_model()), None)
    return sorted(kept.values(), key=lambda text: (len(text.split()), text))


def _quick(progress: Progress) -> Result:
    small = {
        "warmstart.examples": 2560,
        "warmstart.batch": 32,
        "model.scratch.width": 64,
        "sampling.tasks_per_step": 4,
        "domain.options.limits.groups": 2,
        "domain.options.limits.largest": 6,
        "domain.options.limits.multiplets": 5,
        "domain.options.max_example_words": 50,
        "sampling.max_new_tokens": 60,
    }
    task = progress.add_task("theories-learn", total=1)
    with tempfile.TemporaryDirectory() as scratch:
        run = learn(0, scratch, small, 0.4, lambda _, text: progress.update(task, description=text), samples=128)
    progress.advance(task)
    gain = run.after.reward.mean - run.before.reward.mean
    return Result("theories-learn", (Figure("gain in held-out reward", gain, ">=", 0.05),), run.curve, summary(run))
