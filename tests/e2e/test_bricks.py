"""The bricks domain: a warm start during or before a run, then training, resuming and evaluation."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from steelyard.tracking import read_metrics

from .conftest import Call

pytest.importorskip("highspy")

SMALL = (
    *("--model.scratch.width", "32", "--model.scratch.heads", "2", "--model.scratch.layers", "1"),
    *("--domain.options.kinds", '["tower", "cantilever"]', "--domain.options.max_difficulty", "6.0"),
    *("--sampling.tasks_per_step", "2", "--sampling.group_size", "4", "--warmstart.examples", "128"),
    *("--warmstart.batch", "16", "--warmstart.warmup_steps", "1", "--evaluate.tasks", "4"),
    *("--optimiser.warmup_steps", "0"),
)
TRAIN = (
    *SMALL,
    "--run.steps",
    "2",
    "--evaluate.every",
    "1",
    "--checkpoint.every",
    "1",
    "--tracking.samples_every",
    "1",
)


def test_a_run_makes_its_own_warm_start_and_resumes_without_another(call: Call) -> None:
    trained = call("train", "bricks", *TRAIN)
    assert trained.code == 0, trained.err
    assert "warm start: 8 updates" in trained.err
    run = Path("runs/bricks")
    before = (run / "warmstart" / "model.safetensors").stat().st_mtime_ns
    assert "[warmstart]" in (run / "config.toml").read_text(encoding="utf-8")
    rows = read_metrics(run / "metrics.jsonl")
    assert [row["step"] for row in rows] == [0, 1, 2]

    uninterrupted = json.loads(call("eval", "bricks", "--json", "--tasks", "4").out)
    shutil.rmtree(run / "checkpoints" / "step-00000002")
    resumed = call("train", "--resume", str(run))
    assert resumed.code == 0, resumed.err
    assert "warm start" not in resumed.err
    assert (run / "warmstart" / "model.safetensors").stat().st_mtime_ns == before
    again = read_metrics(run / "metrics.jsonl")
    assert again[-1]["reward/mean"] == rows[-1]["reward/mean"]
    assert json.loads(call("eval", "bricks", "--json", "--tasks", "4").out)["reward"] == uninterrupted["reward"]


def test_an_incomplete_warm_start_is_not_used(call: Call, folder: Path) -> None:
    left = folder / "runs" / "bricks" / "warmstart"
    left.mkdir(parents=True)
    trained = call("train", "bricks", *TRAIN)
    assert trained.code == 0, trained.err
    assert (left / "model.safetensors").is_file()


def test_several_runs_can_share_a_warm_start(call: Call) -> None:
    made = call("warmstart", "bricks", *SMALL, "--out", "warm")
    assert made.code == 0, made.err
    assert "128 examples" in made.out
    assert re.search(r"steelyard train bricks --model.scratch.width 32 .* --warmstart.folder warm", made.out)
    assert call("warmstart", "bricks", *SMALL, "--out", "warm").code == 2

    judged = call("eval", "warm", "--recipe", "bricks", *SMALL[6:], "--tasks", "4", "--json")
    assert judged.code == 0, judged.err
    trained = call("train", "bricks", *TRAIN, "--warmstart.folder", "warm")
    assert trained.code == 0, trained.err
    assert "warm start" not in trained.err
    shutil.rmtree("warm")
    start = call("eval", "bricks", "--checkpoint", "start", "--tasks", "4", "--json")
    assert json.loads(start.out)["reward"] == json.loads(judged.out)["reward"]


def test_evaluating_a_deleted_warm_start_does_not_train_it_again(call: Call) -> None:
    assert call("train", "bricks", *TRAIN).code == 0
    shutil.rmtree("runs/bricks/warmstart")
    refused = call("eval", "bricks", "--checkpoint", "start")
    assert refused.code == 2
    assert "the run's starting weights are lost; choose a checkpoint" in refused.err


def test_the_error_names_a_missing_warm_start_folder(call: Call) -> None:
    refused = call("train", "bricks", *TRAIN, "--warmstart.folder", "nowhere")
    assert refused.code == 2
    assert "nowhere does not exist; create it with `steelyard warmstart`" in refused.err


def test_the_error_for_a_domain_without_examples_names_the_method(call: Call) -> None:
    refused = call("warmstart", "sequences")
    assert refused.code == 2
    assert "define Sequences.examples(" in refused.err
