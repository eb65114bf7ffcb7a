"""Training on the supports works at least as well as masking only the sampler, and its log ratios are 0.

A small policy packs boxes under a constraint, with the same five seeds for both sides. *Masked only* is common
practice: the constraint masks the sampler, but the learner scores the tokens with a softmax over the full vocabulary.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rich.progress import Progress

from benchmarks.constraints.box_packing import CONSTRAINT, NEW_TOKENS, WORDS, check, tasks
from benchmarks.framework.result import Cell, Figure, Result
from steelyard.types import Sample

SEEDS = (0, 1, 2, 3, 4)
STEPS = 120
EVALUATE_EVERY = 20
SIDES = ("exact", "masked only")


class SamplerWithoutSupports:
    """A sampler that applies the constraint but does not pass on the supports."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def sample(self, requests: Sequence[Any], decoding: Any) -> Iterator[Sample]:
        for drawn in self.sampler.sample(requests, decoding):
            yield replace(drawn, decisions=replace(drawn.decisions, support_N=None, supports=None))

    def publish(self, version: int) -> None:
        self.sampler.publish(version)


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version uses one seed and a quarter of the steps, and checks only the log ratios."""
    seeds, steps = (SEEDS[:1], STEPS // 4) if quick else (SEEDS, STEPS)
    bar = progress.add_task("packing", total=len(seeds) * len(SIDES) * steps)
    curves = {side: [run(side, seed, steps, progress, bar) for seed in seeds] for side in SIDES}
    ratio = {side: [float(row["log ratio"]) for curve in curves[side] for row in curve] for side in SIDES}
    figures = [
        Figure("exact: mean |log ratio|", statistics.mean(ratio["exact"]), "<=", 1e-5, "nats"),
        Figure("masked only: mean |log ratio|", statistics.mean(ratio["masked only"]), ">=", 0.1, "nats"),
    ]
    if not quick:
        gain = [
            float(one[-1]["held-out"]) - float(other[-1]["held-out"])
            for one, other in zip(curves["exact"], curves["masked only"], strict=True)
        ]
        spread = max(gain) - min(gain)
        name = "held-out reward, exact minus masked only"
        figures.append(Figure(name, statistics.mean(gain), ">=", 0.0, spread=spread))
    return Result("constraints-matter", tuple(figures), table(curves), _ends(curves))


def table(curves: dict[str, list[list[dict[str, Cell]]]]) -> list[dict[str, Cell]]:
    """Return the mean over seeds at each evaluation, and the largest log ratio overall."""
    rows: list[dict[str, Cell]] = []
    for side, runs in curves.items():
        for together in zip(*runs, strict=True):
            names = ("held-out", "log ratio", "gradient norm", "entropy")
            means = {name: statistics.mean(float(row[name]) for row in together) for name in names}
            largest = max(float(row["largest log ratio"]) for row in together)
            rows.append({"side": side, "step": together[0]["step"], **means, "largest log ratio": largest})
    return rows


def run(side: str, seed: int, steps: int, progress: Progress, bar: Any) -> list[dict[str, Cell]]:
    """Train once with regular evaluations; metrics are means since the previous evaluation."""
    with tempfile.TemporaryDirectory() as scratch:
        trainer = build(seed, steps, scratch)
        evaluator = trainer.evaluator
        if side == "masked only":
            trainer.parts.sampler = SamplerWithoutSupports(trainer.parts.sampler)
        rows: list[dict[str, Cell]] = []
        since: list[dict[str, Any]] = []
        for _ in range(steps):
            since.append(trainer.train_step())
            progress.update(bar, advance=1, description=f"{side}, seed {seed}")
            if trainer.step % EVALUATE_EVERY == 0 or trainer.step == steps:
                rows.append({"step": trainer.step, "held-out": evaluator.run().reward.mean, **_means(since)})
                since = []
    return rows


def build(seed: int, steps: int, scratch: str) -> Any:
    from steelyard import config as configs
    from steelyard.compose import Supplied, build_trainer

    tables: dict[str, Any] = {
        "run": {"folder": scratch, "seed": seed, "steps": steps, "supplied": ["tasks", "eval_tasks", "verifier"]},
        "model": {
            "device": "cpu",
            "scratch": {"layers": 2, "width": 96, "heads": 4, "kv_heads": 2, "max_length": 48, "vocabulary": WORDS},
        },
        "constraint": CONSTRAINT,
        "sampling": {"tasks_per_step": 16, "group_size": 8, "max_new_tokens": NEW_TOKENS},
        "optimiser": {"lr": 1e-3},
        "evaluate": {"every": steps, "tasks": 64, "samples": 4},
        "checkpoint": {"every": 0},
        "tracking": {"console": False},
    }
    supplied = Supplied(tasks=tasks("train", 400), eval_tasks=tasks("held_out", 64), verifier=check)
    return build_trainer(configs.build(tables, source="constraints-matter"), supplied)


def _means(rows: Sequence[dict[str, Any]]) -> dict[str, Cell]:
    return {
        "log ratio": statistics.mean(row["importance/log_abs_mean"] for row in rows),
        "largest log ratio": max(row["importance/log_abs_max"] for row in rows),
        "gradient norm": statistics.mean(row["gradient/norm"] for row in rows),
        "entropy": statistics.mean(row["entropy"] for row in rows),
    }


def _ends(curves: dict[str, list[list[dict[str, Cell]]]]) -> str:
    last = {side: [float(curve[-1]["held-out"]) for curve in runs] for side, runs in curves.items()}
    listed = "; ".join(f"{side} {', '.join(f'{value:.3f}' for value in values)}" for side, values in last.items())
    return f"Final held-out reward by seed: {listed}."
