"""Recipes with episodes: a few training steps, exact resuming, evaluation and samples."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from steelyard.tracking import read_metrics
from tests.e2e.conftest import Call

TINY = (
    *("--model.scratch.width", "32", "--model.scratch.heads", "2", "--model.scratch.kv_heads", "2"),
    *("--model.scratch.layers", "1", "--sampling.tasks_per_step", "2", "--sampling.group_size", "4"),
    *("--run.steps", "2", "--evaluate.every", "2", "--evaluate.tasks", "4", "--checkpoint.every", "1"),
    *("--tracking.samples_every", "2", "--optimiser.warmup_steps", "0", "--optimiser.minibatches", "1"),
)
GUESS = ("--domain.options.numbers", "10", "--domain.options.min_count", "4", "--episode.max_turns", "4")
REPAIR = (
    *("--domain.options.kinds", '["tower", "cantilever"]', "--domain.options.max_difficulty", "5.0"),
    *("--warmstart.examples", "64", "--warmstart.batch", "16", "--warmstart.warmup_steps", "1"),
    *("--verify.pool", "inline"),
)


def train_twice(call: Call, recipe: str, *options: str) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """Train, then resume from the first checkpoint; return the metrics of both runs."""
    trained = call("train", recipe, *TINY, *options)
    assert trained.code == 0, trained.err
    run = Path("runs") / recipe
    rows = read_metrics(run / "metrics.jsonl")
    shutil.rmtree(run / "checkpoints" / "step-00000002")
    resumed = call("train", "--resume", str(run))
    assert resumed.code == 0, resumed.err
    return rows, read_metrics(run / "metrics.jsonl")


def test_guess_trains_resumes_and_is_evaluated(call: Call) -> None:
    rows, again = train_twice(call, "guess", *GUESS)
    assert rows[-1]["step"] == 2
    for name in ("reward/mean", "parts/questions/mean", "eval/parts/questions", "loss"):
        assert again[-1].get(name) == rows[-1].get(name), name
    assert 1 <= rows[-1]["parts/questions/mean"] <= 4 + 3

    evaluated = call("eval", "guess", "--json", "--tasks", "5")
    assert evaluated.code == 0, evaluated.err
    assert "reward" in json.loads(evaluated.out)
    sampled = call("sample", "guess", "--n", "2")
    assert sampled.code == 0, sampled.err
    assert "higher" in sampled.out or "lower" in sampled.out
    drawn = list(Path("runs/guess/artifacts").glob("*.svg"))
    assert drawn
    assert any("higher" in path.read_text() or "lower" in path.read_text() for path in drawn)
    reported = call("report", "runs/guess", "--n", "2", "--tasks", "2")
    assert reported.code == 0, reported.err
    assert "questions on average" in reported.out


def test_bricks_repair_trains_resumes_and_is_evaluated(call: Call) -> None:
    pytest.importorskip("highspy")
    rows, again = train_twice(call, "bricks-repair", *REPAIR)
    for name in ("reward/mean", "parts/builds/mean", "loss"):
        assert again[-1].get(name) == rows[-1].get(name), name
    assert 1 < rows[-1]["parts/builds/mean"] <= 3
    evaluated = call("eval", "bricks-repair", "--json", "--tasks", "3")
    assert evaluated.code == 0, evaluated.err
    sampled = call("sample", "bricks-repair", "--n", "1")
    assert sampled.code == 0, sampled.err
    assert "findings" in sampled.out
    rendered = call("render", "runs/bricks-repair", "--tasks", "1", "--n", "2")
    assert rendered.code == 0, rendered.err
