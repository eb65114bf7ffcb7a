"""SmolLM2 with LoRA learns to use a calculator: held-out success is 40 points above the base model with the same tool.

Each seed trains the ``calculator`` recipe twice: with the tool, and without it (the same model, tasks, settings and
number of steps; answers are whole numbers in both). Success is measured on held-out expressions before and after, with
the same random numbers. The base model has the same prompt, tool and constraint as the trained one.

The figures do not show that the model computes better by itself (it does not, as the run without the tool shows), that
it would choose the right one of several tools, or that it calls tools without an example in its prompt.
"""

from __future__ import annotations

import tempfile
from typing import Any, NamedTuple

from rich.progress import Progress

from benchmarks.framework.parallel_runs import ReportProgress, run_in_parallel
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.seeds import interval
from benchmarks.framework.smollm import model_folder
from benchmarks.framework.training_runs import EvaluationPlan, TrainingOutcome, load_recipe, train_and_evaluate

NAME = "episodes-learn-calculator"
SEEDS = (0, 1, 2)
STEPS = 40
GAIN = 40.0
MINUTES = 45.0
PLAN = EvaluationPlan(held_out=1, samples=1, every=10)
TOOLS: dict[str, dict[str, Any]] = {
    "calculator": {},
    "none": {"episode.tools": [], "constraint.kind": "regex", "domain.options.example": "answer"},
}
"""Changes to the recipe for each choice of tool."""
SMALL = {"run.steps": 2, "domain.options.tasks": 80, "sampling.tasks_per_step": 2, "sampling.group_size": 4}


class Job(NamedTuple):
    """One training run."""

    seed: int
    tool: str
    quick: bool


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version takes two steps and requires a verdict for every held-out episode."""
    seeds = SEEDS[:1] if quick else SEEDS
    jobs = [Job(seed, tool, quick) for seed in seeds for tool in (("calculator",) if quick else TOOLS)]
    model_folder()  # fetched once, before the runs start
    named = {f"seed {job.seed}, tool {job.tool}": job for job in jobs}
    outcomes = dict(zip(jobs, run_in_parallel(learn, named, progress, MINUTES), strict=True))
    rows = [_row(job, outcome) for job, outcome in outcomes.items()]
    if quick:
        lost = float(outcomes[jobs[0]].after.unscored)
        return Result(NAME, (Figure("held-out episodes without a verdict", lost, "<=", 0.0),), rows)
    return Result(NAME, _figures(outcomes), rows, note=_note(outcomes))


def learn(job: Job, report_progress: ReportProgress) -> TrainingOutcome:
    """Train one seed with or without the tool, and evaluate it before and after on held-out tasks."""
    overrides = {"model.path": str(model_folder()), "model.dtype": "float32", "run.steps": STEPS, **TOOLS[job.tool]}
    with tempfile.TemporaryDirectory() as scratch:
        config = load_recipe("calculator", job.seed, scratch, overrides | (SMALL if job.quick else {}))
        return train_and_evaluate(config, PLAN, MINUTES, report_progress)


def _figures(outcomes: dict[Job, TrainingOutcome]) -> tuple[Figure, ...]:
    with_tool = {job.seed: outcome for job, outcome in outcomes.items() if job.tool != "none"}
    without = {job.seed: outcome for job, outcome in outcomes.items() if job.tool == "none"}
    gains = [gain(outcome) for outcome in with_tool.values()]
    leads = [
        100 * (outcome.after.success.low - without[seed].after.success.high) for seed, outcome in with_tool.items()
    ]
    minutes = max(outcome.curve[-1].minutes for outcome in outcomes.values())
    return (
        Figure("smallest gain over the base model", min(gains), ">=", GAIN, "points", max(gains) - min(gains)),
        Figure("smallest gap to training without the tool", min(leads), ">=", 0.0, "points", max(leads) - min(leads)),
        Figure("longest run", minutes, "<=", MINUTES, "minutes"),
    )


def gain(outcome: TrainingOutcome) -> float:
    """Return the gain in held-out success, in percentage points."""
    return 100 * (outcome.after.success.mean - outcome.before.success.mean)


def _note(outcomes: dict[Job, TrainingOutcome]) -> str:
    low, high = interval([gain(outcome) for job, outcome in outcomes.items() if job.tool != "none"])
    return (
        f"The mean gain over the base model is {low:.0f} to {high:.0f} points (95% interval, t, {len(SEEDS)} seeds). "
        "The gap is the lower end of the 95% interval with the tool minus the upper end without it, of the same seed."
    )


def _row(job: Job, outcome: TrainingOutcome) -> dict[str, Cell]:
    before, after, last = outcome.before.success, outcome.after.success, outcome.curve[-1]
    return {
        "seed": job.seed,
        "tool": job.tool,
        "before": before.mean,
        "before, 95%": f"{before.low:.2f}–{before.high:.2f}",
        "after": after.mean,
        "after, 95%": f"{after.low:.2f}–{after.high:.2f}",
        "steps": last.step,
        "minutes": last.minutes,
    }
