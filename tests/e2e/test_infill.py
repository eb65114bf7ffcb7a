"""Fill-in: a run with a warm start and a judge, its samples, and models and judges loaded from folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from steelyard import config as configs
from steelyard.tracking import read_metrics
from steelyard.types import HOLE

from .conftest import Call

SMALL = (
    *("--model.scratch.width", "32", "--model.scratch.heads", "2", "--model.scratch.layers", "1"),
    *("--domain.options.max_length", "60", "--domain.options.max_holes", "6"),
    *("--warmstart.examples", "32", "--warmstart.batch", "16", "--warmstart.warmup_steps", "1"),
    *("--judge.examples", "32", "--judge.batch", "16", "--judge.warmup_steps", "1"),
    *("--sampling.tasks_per_step", "2", "--sampling.group_size", "4", "--sampling.fill_steps", "2"),
    *("--evaluate.tasks", "4", "--optimiser.warmup_steps", "0"),
)
TRAIN = (*SMALL, "--run.steps", "2", "--checkpoint.every", "1", "--tracking.samples_every", "1")


def test_a_run_from_the_warm_start_to_the_page_of_samples(call: Call) -> None:
    trained = call("train", "infill", *TRAIN)
    assert trained.code == 0, trained.err
    assert "warm start: 2 updates" in trained.err
    assert "judge: 2 updates" in trained.err
    run = Path("runs/infill")
    rows = read_metrics(run / "metrics.jsonl")
    assert rows[-1]["parts/judge/mean"] > 0
    assert rows[-1]["importance/log_abs_max"] < 1e-4

    shutil.rmtree(run / "checkpoints" / "step-00000002")
    resumed = call("train", "--resume", str(run))
    assert resumed.code == 0, resumed.err
    assert "training the judge" not in resumed.err
    assert read_metrics(run / "metrics.jsonl")[-1]["reward/mean"] == rows[-1]["reward/mean"]

    seen = call("sample", "infill", "--n", "3")
    assert seen.code == 0, seen.err
    assert HOLE in seen.out
    assert seen.out.count("judge 0.") == 3
    rewards = [float(line.split("reward ")[1].split()[0]) for line in seen.out.splitlines() if "reward " in line]
    assert rewards == sorted(rewards, reverse=True), "best first"

    assert call("sample", "infill", "--page", "fills.html").code == 0
    page = Path("fills.html").read_text(encoding="utf-8")
    assert page.count("<h2>step") == 2
    assert page.count("<figure") == 6
    assert 'class="made"' in page
    assert json.loads(call("eval", "infill", "--json", "--tasks", "4", "--k", "1").out)["unscored"] == 0.0


def test_runs_can_share_a_warm_start_and_a_judge_and_load_a_model_by_folder(call: Call) -> None:
    without_warm_start = call("judge", "train", "infill", *SMALL, "--warmstart.folder", "warm", "--out", "judge")
    assert "warmstart.folder = warm does not exist; create it with `steelyard warmstart`" in without_warm_start.err
    without_judge = call("check", "infill", *SMALL, "--judge.folder", "judge")
    assert "judge.folder = judge does not exist; create it with `steelyard judge train`" in without_judge.err
    assert call("warmstart", "infill", *SMALL, "--out", "warm").code == 0
    judged = call("judge", "train", "infill", *SMALL, "--warmstart.folder", "warm", "--out", "judge")
    assert judged.code == 0, judged.err
    assert "32 real and as many generated texts" in judged.out
    named = ("--warmstart.folder", "warm", "--judge.folder", "judge")
    assert call("train", "infill", *TRAIN, *named, "--run.name", "named").code == 0
    assert Path("runs/named/judge/config.json").is_file()
    assert "already exists" in call("judge", "train", "infill", *SMALL, "--out", "judge").err

    both = call("judge", "train", "infill", *SMALL, "--out", "both")
    assert both.code == 0, both.err
    assert Path("both-warmstart/config.json").is_file()
    assert "--warmstart.folder both-warmstart --judge.folder both " in both.out
    shutil.rmtree("both")
    assert "--warmstart.folder both-warmstart" in call("judge", "train", "infill", *SMALL, "--out", "both").err

    by_path = ("--model.scratch", "none", "--model.path", "warm", "--warmstart", "none", "--judge", "none")
    small = [word for pair in zip(SMALL[::2], SMALL[1::2], strict=True) for word in pair if _kept(pair[0])]
    Path("own.toml").write_text(configs.dump(configs.load("infill", [*small, *by_path])), encoding="utf-8")
    opened = call("train", "own.toml", "--run.steps", "1", "--run.name", "opened")
    assert opened.code == 0, opened.err
    assert "judge" not in call("sample", "opened").out


def test_a_page_needs_a_run_with_a_domain(call: Call) -> None:
    assert "run that has a domain" in call("sample", "x", "--recipe", "sequences", "--page", "p.html").err


def _kept(key: str) -> bool:
    return not key.startswith(("--model.scratch", "--warmstart", "--judge"))
