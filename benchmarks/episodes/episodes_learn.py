"""A policy learns to bisect ranges it has never seen, with at most 1.05 times as many questions as bisection needs.

Train the ``guess`` recipe, then play every number in every range that never occurs in training.

The policy plays at the recipe's evaluation temperature, four games for each number. A question may name any number in
the range. For comparison, a random player draws from the same numbers in every turn; its mean number of questions is
computed exactly, not sampled.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rich.progress import Progress

from benchmarks.framework.parallel_runs import ReportProgress, run_in_parallel
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.training_runs import load_recipe
from steelyard.domains.guess.game import count_of, random_player
from steelyard.training.evaluation import Evaluation
from steelyard.types import Task

SEEDS = (0, 1, 2)
MINUTES = 30.0
GAMES = 4
"""Number of games for each number in each held-out range."""
TARGET = 1.05
"""Largest allowed mean number of questions, relative to bisection."""
QUICK: Mapping[str, Any] = {
    "domain.options.numbers": 10,
    "domain.options.min_count": 4,
    "sampling.tasks_per_step": 16,
    "model.scratch.layers": 2,
    "model.scratch.width": 64,
    "run.steps": 40,
}
QUICK_TARGET = 2.0


@dataclass(frozen=True)
class Games:
    """Statistics of all games in an evaluation."""

    questions: float
    """Mean number of questions per game; a failed game counts as the limit plus the optimum."""
    optimum: float
    found: float

    @property
    def ratio(self) -> float:
        return self.questions / self.optimum


@dataclass(frozen=True)
class GuessRun:
    """One training run, with the games before and after it."""

    seed: int
    games: int
    random: float
    """Mean number of questions asked by a random legal player."""
    before: Games
    after: Games
    minutes: float
    steps: int

    @property
    def summary(self) -> str:
        return (
            f"guess, seed {self.seed}: {self.games} games of held-out ranges; random player {self.random:.2f} "
            f"questions, untrained {self.before.questions:.2f}, trained {self.after.questions:.3f}, bisection "
            f"{self.after.optimum:.3f}; found {self.after.found:.1%}; {self.minutes:.1f} minutes, {self.steps} steps"
        )

    def row(self) -> dict[str, Cell]:
        return {
            "run": f"seed {self.seed}",
            "compared with": f"random player {self.random:.3f} questions, bisection {self.after.optimum:.3f}",
            "before": self.before.questions,
            "after": self.after.questions,
            "minutes": self.minutes,
        }


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version only shows that the recipe trains."""
    found, runs = _study(quick, progress)
    return Result("episodes-learn", tuple(found), [run.row() for run in runs], ". ".join(run.summary for run in runs))


def _study(quick: bool, progress: Progress) -> tuple[list[Figure], list[GuessRun]]:
    """Train all seeds; the quick version trains one seed for a few steps on short ranges."""
    if quick:
        task = progress.add_task("guess", total=1)
        runs = [learn(0, QUICK, MINUTES, lambda _, text: progress.update(task, description=text))]
        progress.advance(task)
        return figures(runs, QUICK_TARGET), runs
    jobs = {f"guess, seed {seed}": seed for seed in SEEDS}
    runs = []
    for run in run_in_parallel(learn_recipe, jobs, progress, MINUTES):
        runs.append(run)
        progress.console.print(run.summary)
    return figures(runs, TARGET), runs


def figures(runs: Sequence[GuessRun], target: float) -> list[Figure]:
    ratios = [run.after.ratio for run in runs]
    share = [run.after.questions / run.random for run in runs]
    spread = max(ratios) - min(ratios)
    return [
        Figure("guess: questions relative to bisection", max(ratios), "<=", target, spread=spread),
        Figure("guess: questions relative to a random legal player", max(share), "<=", 1.0),
        Figure("guess: minutes of training", max(run.minutes for run in runs), "<=", MINUTES),
    ]


def learn_recipe(seed: int, report_progress: ReportProgress) -> GuessRun:
    return learn(seed, {}, MINUTES, report_progress)


def learn(seed: int, overrides: Mapping[str, Any], minutes: float, report_progress: ReportProgress) -> GuessRun:
    """Train for the recipe's steps, or until ``minutes`` have passed."""
    from steelyard.compose import build_trainer, tasks_of_split

    with tempfile.TemporaryDirectory() as scratch:
        config = load_recipe("guess", seed, scratch, overrides)
        trainer = build_trainer(config)
        try:
            held_out = tasks_of_split(config, "held_out")
            before = play(config, trainer, held_out)
            spent = 0.0
            while spent < 60 * minutes and trainer.step < trainer.settings.steps:
                start = time.perf_counter()
                metrics = trainer.train_step()
                spent += time.perf_counter() - start
                asked = metrics.get("parts/questions/mean", 0.0)
                report_progress(spent / 60, f"step {trainer.step}, {asked:.2f} questions")
            after = play(config, trainer, held_out)
            chance = fmean(random_player(count_of(task), config.episode.max_turns) for task in held_out)
            return GuessRun(seed, GAMES * len(held_out), chance, before, after, spent / 60, trainer.step)
        finally:
            trainer.close()


def play(config: Any, trainer: Any, tasks: list[Task]) -> Games:
    """Play ``GAMES`` games for each task."""
    from steelyard.compose import build_evaluator

    evaluator = build_evaluator(config, trainer.parts.sampler, trainer.parts.pool, tasks, samples=GAMES)
    return games_of(evaluator.run())


def games_of(evaluation: Evaluation) -> Games:
    parts = [verdict.parts for group in evaluation.groups for verdict in group.verdicts]
    questions, optimum, found = (fmean(part[name] for part in parts) for name in ("questions", "optimum", "found"))
    return Games(questions, optimum, found)
