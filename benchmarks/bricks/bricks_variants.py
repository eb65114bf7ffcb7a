"""Without a reward for the brief's purpose, training produces heaps; action spaces and estimators are compared too.

Each run changes one setting of the ``bricks`` recipe and trains one seed for a quarter of the ``bricks-learn`` time.
Runs with the same action space share one warm start. Without the purpose term, and without the success term, which
includes it, the reward covers only stability, connectivity and the number of bricks.
"""

from __future__ import annotations

import tempfile
from typing import Any

from rich.progress import Progress

from benchmarks.bricks.bricks_learn import MINUTES, PICTURES, by_kind, learn, sheet
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.training_runs import load_recipe

SEED = 0
HEAP_WEIGHTS = {"purpose": 0.0, "success": 0.0, "stability": 0.6, "connectivity": 0.2, "length": 0.2, "quality": 0.1}
VARIANTS: dict[str, dict[str, Any]] = {
    "recipe": {},
    "pivots and offsets": {
        "domain.options.action": "two_step",
        "domain.options.action_options": {"joint": True, "reach": [14, 7, 1]},
    },
    "absolute coordinates": {
        "domain.options.action": "absolute",
        "sampling.max_new_tokens": 81,
        "model.scratch.max_length": 112,
    },
    "max_at_k": {"credit.advantage": "max_at_k", "credit.k": 4},
    "no purpose": {"domain.options.reward": {"needs_purpose": False, "weights": HEAP_WEIGHTS}},
}
QUICK = {
    "warmstart.examples": 480,
    "warmstart.batch": 16,
    "domain.options.max_difficulty": 5.0,
    "domain.options.kinds": ["tower", "cantilever"],
    "sampling.tasks_per_step": 4,
}


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version trains briefly after a small warm start and requires a positive reward."""
    minutes = 0.03 if quick else MINUTES / 4
    small: dict[str, Any] = QUICK if quick else {}
    bar = progress.add_task("variants", total=len(VARIANTS) * minutes)
    rows: list[dict[str, Cell]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for number, (name, changes) in enumerate(VARIANTS.items()):

            def report_progress(spent: float, text: str, name: str = name, number: int = number) -> None:
                progress.update(bar, completed=number * minutes + min(spent, minutes), description=f"{name}: {text}")

            folder = f"{scratch}/{number}"
            overrides = {**changes, **small, **shared_warm_start(changes, scratch)}
            run = learn(SEED, folder, overrides, minutes, report_progress)
            rows.append(row(name, run))
            progress.console.print(f"{name}: {rows[-1]}")
            if name == "no purpose" and not quick:
                (PICTURES / "bricks-heaps.png").write_bytes(sheet(run.space, run.after.groups))
    return Result("bricks-variants", figures(rows, quick=quick), rows)


def shared_warm_start(changes: dict[str, Any], scratch: str) -> dict[str, Any]:
    """Return an override that reuses the first run's warm start if the action space is the same."""
    from steelyard.compose.warmstart import warm_start_folder

    first = warm_start_folder(load_recipe("bricks", SEED, f"{scratch}/0", {}))
    return {"warmstart.folder": str(first)} if first.is_dir() and "domain.options.action" not in changes else {}


def row(name: str, run: Any) -> dict[str, Cell]:
    return {
        "variant": name,
        "before": run.before.success.mean,
        "after": run.after.success.mean,
        "reward": run.after.reward.mean,
        "95%": f"{run.after.success.low:.2f}–{run.after.success.high:.2f}",
        "distinct": run.distinct(),
        "steps": int(run.curve[-1]["step"]),
        "minutes": run.minutes,
        "warm start, minutes": run.warm_minutes,
        **by_kind(run.after.groups),
    }


def figures(rows: list[dict[str, Cell]], *, quick: bool) -> tuple[Figure, ...]:
    """Require that the purpose term makes a difference; the other variants only appear in the table."""
    after = {str(row["variant"]): float(row["after"]) for row in rows}
    if quick:
        return (Figure("smallest held-out reward", min(float(row["reward"]) for row in rows), ">=", 0.03),)
    lead = after["recipe"] - after["no purpose"]
    return (Figure("success of the recipe minus that without the purpose", lead, ">=", 0.1),)
