"""Three builds per brief, with feedback in between, are compared with independent builds at equal token counts.

Compare three successive builds, with feedback in between, with independent builds at equal token counts.

Both policies start from the same warm start and are trained on the same number of tokens: one with three builds per
task, the other with one. They are compared on held-out briefs on which the warm start succeeds in 40–70% of single
builds, so the selection favours neither policy. Each brief gets the same number of tokens. One policy spends its tokens
on an episode of at most three builds with feedback, the other on independent builds, of which the verifier chooses the
best.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from rich.progress import Progress

from benchmarks.bricks.token_budget import Attempt, solved_within
from benchmarks.framework.parallel_runs import ReportProgress, run_in_parallel
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.training_runs import load_recipe
from steelyard.algorithms.passk import Interval, bootstrap_interval
from steelyard.types import CutRule, Group, Sample, Task, Verdict

SEEDS = (0, 1, 2)
MINUTES = 25.0
"""Training minutes of the policy with three builds; the other policy gets the same number of tokens."""
SUCCESS = (0.4, 0.7)
"""Range of the warm start's success rate in single builds within which a brief is chosen."""
BUILDS = 3
TRIALS = 8
"""Number of single builds per brief when choosing the briefs."""
REPEATS = 4
"""Number of comparisons per brief."""
ATTEMPTS = 2 * BUILDS
"""Number of independent builds per comparison, enough to use up the tokens."""
SINGLE: Mapping[str, Any] = {"domain.options.builds": 1, "episode.max_turns": 1}
QUICK: Mapping[str, Any] = {
    "model.scratch.layers": 2,
    "model.scratch.width": 64,
    "domain.options.kinds": ["tower", "cantilever"],
    "domain.options.max_difficulty": 6.0,
    "warmstart.examples": 1600,
    "warmstart.batch": 32,
    "sampling.tasks_per_step": 4,
    "run.steps": 2,
}


@dataclass(frozen=True)
class RepairRun:
    """One seed: per chosen brief, the fraction of comparisons that each side solved with the same tokens."""

    seed: int
    single: float
    """Success rate of the warm start's single builds on the chosen briefs."""
    repair: list[float]
    independent: list[float]
    first: float
    """Success rate of the first build by the policy with three builds."""
    alone: float
    """Success rate of single builds by the other policy."""
    budget: int
    minutes: float
    warm_minutes: float

    @property
    def summary(self) -> str:
        return (
            f"repair, seed {self.seed}: {len(self.repair)} briefs, start {self.single:.2f}; within {self.budget} "
            f"tokens {interval_text(self.repair)} with findings, {interval_text(self.independent)} independently; "
            f"first build {self.first:.2f}, single build {self.alone:.2f}; {self.minutes:.1f} minutes, warm start "
            f"{self.warm_minutes:.1f}"
        )

    def row(self) -> dict[str, Cell]:
        return {
            "run": f"seed {self.seed}",
            "compared with": f"independent builds {interval_text(self.independent)}, {self.budget} tokens",
            "before": self.single,
            "after": fmean(self.repair) if self.repair else float("nan"),
            "minutes": self.minutes,
        }


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version only shows that the recipe trains."""
    found, runs = _study(quick, progress)
    return Result(
        "episodes-learn-repair", tuple(found), [run.row() for run in runs], ". ".join(run.summary for run in runs)
    )


def _study(quick: bool, progress: Progress) -> tuple[list[Figure], list[RepairRun]]:
    if quick:
        task = progress.add_task("repair", total=1)
        runs = [learn(0, QUICK, 0.3, lambda _, text: progress.update(task, description=text), (0.0, 1.0))]
        progress.advance(task)
        return [Figure("repair: briefs compared", len(runs[0].repair), ">=", 1)], runs
    runs = []
    for run in run_in_parallel(learn_recipe, {f"repair, seed {seed}": seed for seed in SEEDS}, progress, MINUTES):
        runs.append(run)
        progress.console.print(run.summary)
    return figures(runs), runs


def figures(runs: Sequence[RepairRun]) -> list[Figure]:
    """Return the lead of repair, and the gap between the 95% intervals over the briefs of all seeds."""
    repair = bootstrap_interval([value for run in runs for value in run.repair])
    independent = bootstrap_interval([value for run in runs for value in run.independent])
    lead = repair.mean - independent.mean
    return [
        Figure("repair: lead over independent builds at equal tokens", lead, ">=", 0.0),
        Figure("repair: gap between the 95% intervals", repair.low - independent.high, ">=", 0.0),
    ]


def learn_recipe(seed: int, report_progress: ReportProgress) -> RepairRun:
    return learn(seed, {}, MINUTES, report_progress, SUCCESS)


def learn(
    seed: int,
    overrides: Mapping[str, Any],
    minutes: float,
    report_progress: ReportProgress,
    wanted: tuple[float, float],
) -> RepairRun:
    """Train both policies from one warm start, then compare them on the chosen briefs."""
    from steelyard.compose import prepare_start
    from steelyard.compose.warmstart import warm_start_folder

    with tempfile.TemporaryDirectory() as scratch:
        report_progress(0.0, "warm start")
        start = time.perf_counter()
        first = load_recipe("bricks-repair", seed, f"{scratch}/repair", overrides)
        repair = prepare_start(first)
        warm_minutes = (time.perf_counter() - start) / 60
        shared = {"warmstart.folder": str(warm_start_folder(first))}
        single = prepare_start(
            load_recipe("bricks-repair", seed, f"{scratch}/single", {**overrides, **SINGLE, **shared})
        )
        tasks, rate = chosen(single, wanted)
        tokens, spent, episodes = _trained(repair, minutes, None, tasks, REPEATS, report_progress)
        _, _, builds = _trained(single, 4 * minutes, tokens, tasks, REPEATS * ATTEMPTS, report_progress)
        return compare(seed, rate, episodes, builds, spent / 60, warm_minutes)


def chosen(config: Any, wanted: tuple[float, float]) -> tuple[list[Task], float]:
    """Return the held-out briefs whose warm-start success rate is in the wanted range, and the mean of these rates."""
    from steelyard.compose import build_trainer, tasks_of_split

    trainer = build_trainer(config)
    try:
        groups = sampled(config, trainer, tasks_of_split(config, "held_out"), TRIALS)
    finally:
        trainer.close()
    rates = [(group.task, fmean(verdict.success for verdict in group.verdicts)) for group in groups]
    kept = [(task, rate) for task, rate in rates if wanted[0] <= rate <= wanted[1]]
    return [task for task, _ in kept], fmean(rate for _, rate in kept) if kept else float("nan")


def _trained(
    config: Any, minutes: float, tokens: float | None, tasks: list[Task], samples: int, report_progress: ReportProgress
) -> tuple[float, float, list[Group]]:
    """Train for the given minutes or tokens; return the tokens used, the seconds taken, and samples for the tasks."""
    from steelyard.compose import build_trainer

    trainer = build_trainer(config)
    spent = drawn = 0.0
    try:
        while spent < 60 * minutes and (trainer.step < trainer.settings.steps if tokens is None else drawn < tokens):
            start = time.perf_counter()
            metrics: dict[str, Any] = trainer.train_step()
            spent += time.perf_counter() - start
            drawn += metrics["samples"] * metrics["length/mean"]
            report_progress(spent / 60, f"step {trainer.step}, success {metrics.get('success', 0.0):.2f}")
        return drawn, spent, sampled(config, trainer, tasks, samples)
    finally:
        trainer.close()


def sampled(config: Any, trainer: Any, tasks: list[Task], samples: int) -> list[Group]:
    """Sample at temperature 1, as in training: independent builds need variety."""
    from steelyard.compose import build_evaluator

    evaluator = build_evaluator(config, trainer.parts.sampler, trainer.parts.pool, tasks, samples=samples)
    evaluator.decoding = replace(evaluator.decoding, rule=CutRule())
    return list(evaluator.run().groups)


def compare(
    seed: int, rate: float, episodes: Sequence[Group], builds: Sequence[Group], minutes: float, warm_minutes: float
) -> RepairRun:
    """Count the briefs that each side solves within the tokens of three independent builds."""
    independent = [[attempt(*pair) for pair in _pairs(group)] for group in builds]
    repaired = [[attempts(*pair) for pair in _pairs(group)] for group in episodes]
    budget = round(BUILDS * fmean(one.tokens for found in independent for one in found))
    return RepairRun(
        seed=seed,
        single=rate,
        repair=[fmean(solved_within(found, budget)) for found in repaired],
        independent=[fmean(solved_within(_in_trials(found), budget)) for found in independent],
        first=fmean(episode[0].success for found in repaired for episode in found),
        alone=fmean(one.success for found in independent for one in found),
        budget=budget,
        minutes=minutes,
        warm_minutes=warm_minutes,
    )


def _in_trials(found: Sequence[Attempt]) -> list[Sequence[Attempt]]:
    return [found[start : start + ATTEMPTS] for start in range(0, len(found), ATTEMPTS)]


def attempt(sample: Sample, verdict: Verdict) -> Attempt:
    """Return a single build with its number of sampled tokens."""
    return Attempt(len(sample.completion_ids), verdict.success)


def attempts(sample: Sample, verdict: Verdict) -> list[Attempt]:
    """Return the builds of an episode; only the last one can succeed. Feedback tokens are not counted."""
    tokens = [turn.end - turn.start for turn in sample.turns if turn.role == "assistant"]
    return [Attempt(count, verdict.success and place == len(tokens)) for place, count in enumerate(tokens, 1)]


def _pairs(group: Group) -> list[tuple[Sample, Verdict]]:
    return list(zip(group.samples, group.verdicts, strict=True))


def interval_text(values: Sequence[float]) -> str:
    found: Interval = bootstrap_interval(values)
    return f"{found.mean:.3f} ({found.low:.3f}–{found.high:.3f})"
