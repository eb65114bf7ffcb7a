"""From a warm start on examples of which 30–50% succeed, held-out brick structures come to succeed at 90%.

A success stands under its load, hangs together and fulfils its brief. Training takes the steps of the recipe, or an
hour if they need longer, and is watched on the validation briefs; the held-out briefs, whose parameters never occur in
training, are looked at twice: before and after.
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
from benchmarks.framework.parallel_runs import Tell, abreast
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.training_runs import Watch, configured, watched_run
from steelyard.domains.bricks import render
from steelyard.domains.bricks.actions import ActionSpace
from steelyard.domains.bricks.artifacts import verdict_lines
from steelyard.domains.bricks.briefs import brief_of
from steelyard.training.evaluation import Evaluation
from steelyard.types import Group

SEEDS = (0, 1, 2)
MINUTES = 60.0
REACH = 0.9
LOOK_EVERY = 25
SAMPLES = 4
DISTINCT = 0.8
DATA = (0.3, 0.5)
EXAMPLES = 700
PICTURES = Path(__file__).resolve().parents[2] / "docs" / "images"


@dataclass(frozen=True)
class Learnt:
    """One run: what held-out briefs came to before and after, and the way between."""

    seed: int
    space: ActionSpace
    before: Evaluation
    after: Evaluation
    curve: list[dict[str, Cell]]
    warm_minutes: float

    @property
    def minutes(self) -> float:
        """Of training; the loop ends it when its time is over."""
        return float(self.curve[-1]["minutes"])

    def distinct(self, *, wherever: bool = False) -> float:
        """Different structures, each with its brief, among all that succeed at the end; ``wherever``: moved ones count
        as equal.
        """
        made = [
            (group.task.id, form(self.space, sample.text, wherever=wherever))
            for group in self.after.groups
            for sample, verdict in zip(group.samples, group.verdicts, strict=True)
            if verdict.success
        ]
        return len(set(made)) / max(len(made), 1)


def measure(quick: bool, progress: Progress) -> Result:
    """Quick: small towers and cantilevers, a short warm start, a few steps; the held-out reward has to have risen."""
    if quick:
        return _quick(progress)
    runs: list[Learnt] = []
    for run in abreast(learn_recipe, {f"seed {seed}": seed for seed in SEEDS}, progress, MINUTES):
        runs.append(run)
        progress.console.print(summary(run))
    PICTURES.mkdir(exist_ok=True)
    for name, evaluation in (("before", runs[0].before), ("after", runs[0].after)):
        (PICTURES / f"bricks-{name}.png").write_bytes(sheet(runs[0].space, evaluation.groups))
    rows = [row for run in runs for row in run.curve]
    return Result("bricks-learn", figures(runs), rows, note(runs))


def learn_recipe(seed: int, tell: Tell) -> Learnt:
    with tempfile.TemporaryDirectory() as scratch:
        return learn(seed, scratch, {}, MINUTES, tell)


def learn(seed: int, scratch: str, overrides: Mapping[str, Any], minutes: float, tell: Tell) -> Learnt:
    """Warm start, then the steps of the recipe, or as many as the minutes allow."""
    config = configured("bricks", seed, scratch, overrides)
    watch = Watch(SAMPLES, 1, LOOK_EVERY)
    run = watched_run(config, watch, minutes, tell)
    curve = [look.row(seed) for look in run.looks]
    return Learnt(seed, space_of(config), run.before, run.after, curve, run.warm_minutes)


def figures(runs: Sequence[Learnt]) -> tuple[Figure, ...]:
    ends = [run.after.success.mean for run in runs]
    distinct = [run.distinct() for run in runs]
    share = data_success([run.seed for run in runs])
    return (
        Figure("held-out success", min(ends), ">=", REACH, spread=max(ends) - min(ends)),
        Figure("distinct among successes", min(distinct), ">=", DISTINCT, spread=max(distinct) - min(distinct)),
        Figure("success of the examples", share, ">=", DATA[0]),
        Figure("success of the examples, from above", share, "<=", DATA[1]),
    )


def data_success(seeds: Sequence[int]) -> float:
    """The share of the warm starts' first examples that succeed."""
    counts = [pair for seed in seeds for pair in success_by_kind(bricks(seed), EXAMPLES, seed=seed).values()]
    return sum(right for right, _ in counts) / sum(asked for _, asked in counts)


def bricks(seed: int) -> Any:
    """The domain of the recipe."""
    from steelyard.compose import build_domain

    return build_domain(configured("bricks", seed, "unused", {}))


def form(space: ActionSpace, text: str, *, wherever: bool) -> tuple[Any, ...]:
    """The bricks in no order, and if ``wherever`` moved to the corner."""
    bricks = space.read(text).structure.bricks
    x, y = (min(brick.x for brick in bricks), min(brick.y for brick in bricks)) if wherever else (0, 0)
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


def summary(run: Learnt) -> str:
    """A line of a run: before and after with 95% intervals over briefs, and how varied."""
    before, after = (
        f"{e.success.mean:.3f} ({e.success.low:.3f}–{e.success.high:.3f})" for e in (run.before, run.after)
    )
    return (
        f"seed {run.seed}: {before} to {after} after {run.minutes:.1f} minutes and {run.curve[-1]['step']} steps "
        f"(warm start {run.warm_minutes:.1f}); distinct among successes {run.distinct():.3f}, "
        f"{run.distinct(wherever=True):.3f} if moved ones count as equal"
    )


def note(runs: Sequence[Learnt]) -> str:
    kinds = [by_kind(run.after.groups) for run in runs]
    table = "; ".join(f"{kind} {', '.join(f'{found[kind]:.2f}' for found in kinds)}" for kind in kinds[0])
    lines = [summary(run) for run in runs]
    return "Held-out success before and after: " + ". ".join(lines) + f". By kind, a figure a seed: {table}."


def sheet(space: ActionSpace, groups: Sequence[Group], cards: int = 14) -> bytes:
    """The first sample of the first briefs, two of each kind."""
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
        "domain.options.hardest": 8.0,
    }
    task = progress.add_task("bricks-learn", total=1)
    with tempfile.TemporaryDirectory() as scratch:
        run = learn(0, scratch, small, 0.4, lambda _, text: progress.update(task, description=text))
    progress.advance(task)
    gain = run.after.reward.mean - run.before.reward.mean
    return Result("bricks-learn", (Figure("gain of held-out reward", gain, ">=", 0.05),), run.curve, summary(run))
