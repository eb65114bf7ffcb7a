"""Training raises success on held-out brick briefs to 90%, after a warm start on examples with a 30–50% success rate.

A successful structure stands under its load, is connected and fulfils its brief. Training runs for the recipe's steps,
or for an hour if they take longer, with evaluations on the validation briefs. Held-out briefs, whose parameters never
occur in training, are evaluated only before and after training.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import Progress

from benchmarks.bricks.examples import success_by_kind
from benchmarks.framework.parallel_runs import ReportProgress, run_in_parallel
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.training_runs import EvaluationPlan, load_recipe, train_and_evaluate
from steelyard.domains.bricks import render
from steelyard.domains.bricks.actions import ActionSpace
from steelyard.domains.bricks.artifacts import verdict_lines
from steelyard.domains.bricks.briefs import brief_of
from steelyard.training.evaluation import Evaluation
from steelyard.types import Group

SEEDS = (0, 1, 2)
MINUTES = 60.0
TARGET = 0.9
EVALUATE_EVERY = 25
SAMPLES = 4
DISTINCT = 0.8
DATA = (0.3, 0.5)
EXAMPLES = 700
PICTURES = Path(__file__).resolve().parents[2] / "docs" / "images"


@dataclass(frozen=True)
class LearningRun:
    """One training run: held-out evaluations before and after, and the curve between them."""

    seed: int
    space: ActionSpace
    before: Evaluation
    after: Evaluation
    curve: list[dict[str, Cell]]
    warm_minutes: float

    @property
    def minutes(self) -> float:
        """Minutes of training."""
        return float(self.curve[-1]["minutes"])

    def distinct(self, *, ignore_position: bool = False) -> float:
        """Return the fraction of final successes that are distinct structures for their brief.

        With ``ignore_position``, translated copies count as equal.
        """
        successes = [
            (group.task.id, canonical_bricks(self.space, sample.text, ignore_position=ignore_position))
            for group in self.after.groups
            for sample, verdict in zip(group.samples, group.verdicts, strict=True)
            if verdict.success
        ]
        return len(set(successes)) / max(len(successes), 1)


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version takes a few steps on small briefs and requires the reward to rise."""
    if quick:
        return _quick(progress)
    runs: list[LearningRun] = []
    for run in run_in_parallel(learn_recipe, {f"seed {seed}": seed for seed in SEEDS}, progress, MINUTES):
        runs.append(run)
        progress.console.print(summary(run))
    PICTURES.mkdir(exist_ok=True)
    for name, evaluation in (("before", runs[0].before), ("after", runs[0].after)):
        (PICTURES / f"bricks-{name}.png").write_bytes(sheet(runs[0].space, evaluation.groups))
    rows = [row for run in runs for row in run.curve]
    return Result("bricks-learn", figures(runs), rows, note(runs))


def learn_recipe(seed: int, report_progress: ReportProgress) -> LearningRun:
    with tempfile.TemporaryDirectory() as scratch:
        return learn(seed, scratch, {}, MINUTES, report_progress)


def learn(
    seed: int, scratch: str, overrides: Mapping[str, Any], minutes: float, report_progress: ReportProgress
) -> LearningRun:
    """Warm-start, then train for the recipe's steps or until ``minutes`` have passed."""
    config = load_recipe("bricks", seed, scratch, overrides)
    run = train_and_evaluate(config, EvaluationPlan(SAMPLES, 1, EVALUATE_EVERY), minutes, report_progress)
    curve = [point.row(seed) for point in run.curve]
    return LearningRun(seed, space_of(config), run.before, run.after, curve, run.warm_minutes)


def figures(runs: Sequence[LearningRun]) -> tuple[Figure, ...]:
    ends = [run.after.success.mean for run in runs]
    distinct = [run.distinct() for run in runs]
    share = data_success([run.seed for run in runs])
    return (
        Figure("held-out success", min(ends), ">=", TARGET, spread=max(ends) - min(ends)),
        Figure("distinct among successes", min(distinct), ">=", DISTINCT, spread=max(distinct) - min(distinct)),
        Figure("success of the warm-start examples", share, ">=", DATA[0]),
        Figure("success of the warm-start examples, upper limit", share, "<=", DATA[1]),
    )


def data_success(seeds: Sequence[int]) -> float:
    """Return the success rate of the first warm-start examples."""
    counts = [pair for seed in seeds for pair in success_by_kind(bricks(seed), EXAMPLES, seed=seed).values()]
    return sum(right for right, _ in counts) / sum(total for _, total in counts)


def bricks(seed: int) -> Any:
    """Return the recipe's domain."""
    from steelyard.compose import build_domain

    return build_domain(load_recipe("bricks", seed, "unused", {}))


def canonical_bricks(space: ActionSpace, text: str, *, ignore_position: bool) -> tuple[Any, ...]:
    """Return the sorted bricks; with ``ignore_position``, shift them to the corner first."""
    bricks = space.read(text).structure.bricks
    x, y = (min(brick.x for brick in bricks), min(brick.y for brick in bricks)) if ignore_position else (0, 0)
    return tuple(sorted(brick._replace(x=brick.x - x, y=brick.y - y) for brick in bricks))


def space_of(config: Any) -> ActionSpace:
    from steelyard.compose import build_domain

    domain: Any = build_domain(config)
    return domain.action_space


def by_kind(groups: Sequence[Group]) -> dict[str, float]:
    found: dict[str, list[bool]] = defaultdict(list)
    for group in groups:
        found[str(group.task.spec["kind"])] += [verdict.success for verdict in group.verdicts]
    return {kind: sum(right) / len(right) for kind, right in found.items()}


def summary(run: LearningRun) -> str:
    """Summarise a run in one line: success before and after with 95% intervals over briefs, and diversity."""
    before, after = (
        f"{e.success.mean:.3f} ({e.success.low:.3f}–{e.success.high:.3f})" for e in (run.before, run.after)
    )
    return (
        f"seed {run.seed}: {before} to {after} after {run.minutes:.1f} minutes and {run.curve[-1]['step']} steps "
        f"(warm start {run.warm_minutes:.1f} minutes); distinct among successes {run.distinct():.3f}, "
        f"{run.distinct(ignore_position=True):.3f} if translated copies count as equal"
    )


def note(runs: Sequence[LearningRun]) -> str:
    kinds = [by_kind(run.after.groups) for run in runs]
    table = "; ".join(f"{kind} {', '.join(f'{found[kind]:.2f}' for found in kinds)}" for kind in kinds[0])
    lines = [summary(run) for run in runs]
    return "Held-out success before and after: " + ". ".join(lines) + f". By kind, one value per seed: {table}."


def sheet(space: ActionSpace, groups: Sequence[Group], cards: int = 14) -> bytes:
    """Render the first sample of the first two briefs of each kind."""
    shown = [
        render.Card(
            space.read(group.samples[0].text).structure,
            "\n".join([brief_of(group.task.spec).title(), verdict_lines(group.verdicts[0])[0]]),
            good=group.verdicts[0].success,
        )
        for group in groups[:cards]
    ]
    return render.png(render.contact_sheet(shown, columns=7), scale=1)


def _quick(progress: Progress) -> Result:
    small = {
        "warmstart.examples": 3200,
        "warmstart.batch": 32,
        "sampling.tasks_per_step": 16,
        "domain.options.kinds": ["tower", "cantilever"],
        "domain.options.max_difficulty": 8.0,
    }
    task = progress.add_task("bricks-learn", total=1)
    with tempfile.TemporaryDirectory() as scratch:
        run = learn(0, scratch, small, 0.4, lambda _, text: progress.update(task, description=text))
    progress.advance(task)
    gain = run.after.reward.mean - run.before.reward.mean
    return Result("bricks-learn", (Figure("gain in held-out reward", gain, ">=", 0.05),), run.curve, summary(run))
