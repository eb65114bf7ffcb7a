"""On a Ray cluster with two learner ranks, a vLLM replica and a Ray pool, a model learns as well as in one process.

The task is the same as in ``learn-smol``: SmolLM2-135M-Instruct with LoRA 64 answers in JSON. Seeds, steps and held-out
tasks are the same on both sides; only a few lines of the configuration differ.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from rich.progress import Progress

from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.seeds import distance, interval
from benchmarks.learning import learn_smol
from benchmarks.scale.vllm_parity import APART, MOST

IN_PROCESS, CLUSTER = "in process", "on a cluster"
ON_CLUSTER: dict[str, dict[str, Any]] = {
    "sampling": {"engine": "vllm", "vllm": {"max_length": 256, "cache_gib": 0.5}},
    "cluster": {"samplers": {"replicas": 1, "cpus": 0.5}, "learners": {"ranks": 2}},
    "verify": {"pool": "ray", "workers": 1},
}
SIDES: dict[str, Mapping[str, Mapping[str, Any]]] = {IN_PROCESS: {}, CLUSTER: ON_CLUSTER}


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version takes two small steps, too few for a significant rise in reward.

    It runs in float32, where the sampler and learner agree closely if every update reached the sampler.
    """
    size = (2, 16, 2) if quick else (learn_smol.STEPS, 100, 4)
    runs = [(seed, name) for seed in learn_smol.SEEDS for name in SIDES]
    bar = progress.add_task("cluster-learn", total=size[0] * (1 if quick else len(runs)))

    def advance(text: str) -> None:
        progress.update(bar, advance=1, description=text)

    if quick:
        row = compare_log_probs(size, advance)
        return Result("cluster-learn", quick_figures(row), [row])
    rows = [learn(name, seed, SIDES[name], size, advance) for seed, name in runs]
    return Result("cluster-learn", figures(rows), rows, note(rows))


def compare_log_probs(size: tuple[int, int, int], advance: Callable[[str], None]) -> dict[str, Cell]:
    """Take a few steps; return how much updates change log-probs, and how much the sampler's and learner's differ."""
    exact = {**ON_CLUSTER, **learn_smol.IN_FLOAT32, "optimiser": {"minibatches": 2}}
    apart, moved = list[float](), list[float]()
    with tempfile.TemporaryDirectory() as scratch, closing(learn_smol.build(0, *size, scratch, exact)) as opened:
        trainer: Any = opened
        for step in range(size[0]):
            metrics = trainer.train_step()
            apart.append(metrics["importance/log_abs_max"])
            moved.append(metrics["ratio/log_abs_max"])
            advance(f"step {step + 1}, log-probs {apart[-1]:.1e} apart")
    return {
        "steps": len(apart),
        "largest |log ratio| to the sampler": max(apart),
        "largest |log ratio| of an update": max(moved[:-1]),
    }


def learn(
    name: str,
    seed: int,
    tables: Mapping[str, Mapping[str, Any]],
    size: tuple[int, int, int],
    advance: Callable[[str], None],
) -> dict[str, Cell]:
    """Train one seed on one side; report held-out rewards before and after, with 95% bootstrap intervals over tasks."""
    with tempfile.TemporaryDirectory() as scratch, closing(learn_smol.build(seed, *size, scratch, tables)) as opened:
        trainer: Any = opened
        before = trainer.evaluator.run()
        start, log_ratio = time.perf_counter(), 0.0
        for step in range(size[0]):
            metrics = trainer.train_step()
            log_ratio = max(log_ratio, metrics.get("importance/log_abs_max", 0.0))
            advance(f"{name}, seed {seed}, step {step + 1}, reward {metrics['reward/mean']:.2f}")
        minutes = (time.perf_counter() - start) / 60
        after = trainer.evaluator.run()
    return {
        "side": name,
        "seed": seed,
        "before": before.reward.mean,
        "before, 95%": f"{before.reward.low:.2f}–{before.reward.high:.2f}",
        "after": after.reward.mean,
        "after, 95%": f"{after.reward.low:.2f}–{after.reward.high:.2f}",
        "success after": after.success.mean,
        "gap of the intervals": after.reward.low - before.reward.high,
        "largest |log ratio|": log_ratio,
        "minutes": minutes,
    }


def quick_figures(row: Mapping[str, Cell]) -> tuple[Figure, ...]:
    """Apply the bars of ``vllm-parity``: if the new weights never arrived, the gap would be as large as an update."""
    return (
        Figure("|log ratio| of learner and sampler", float(row["largest |log ratio| to the sampler"]), "<=", MOST),
        Figure("|log ratio| of an update", float(row["largest |log ratio| of an update"]), ">=", APART * MOST),
    )


def figures(rows: Sequence[Mapping[str, Cell]]) -> tuple[Figure, ...]:
    on_cluster = [row for row in rows if row["side"] == CLUSTER]
    rise = min(float(row["gap of the intervals"]) for row in on_cluster)
    return (
        Figure("on the cluster: lower 95% bound after minus upper bound before", rise, ">=", 0.0),
        Figure("gap between the 95% intervals of the final reward", distance(*ends(rows).values()), "<=", 0.0),
    )


def ends(rows: Sequence[Mapping[str, Cell]]) -> dict[str, list[float]]:
    """Return the final held-out rewards of each side, one per seed."""
    return {name: [float(row["after"]) for row in rows if row["side"] == name] for name in SIDES}


def note(rows: Sequence[Mapping[str, Cell]]) -> str:
    shown = [f"{name} {low:.2f}–{high:.2f}" for name, (low, high) in ((n, interval(v)) for n, v in ends(rows).items())]
    return f"Final held-out reward, 95% interval of the mean over seeds: {', '.join(shown)}."
