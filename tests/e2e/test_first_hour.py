"""A new user's first hour: init, check, train, eval, sample, doctor."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from steelyard.tracking import read_metrics

from .conftest import TINY, Call

TRAIN = (
    *("--run.steps", "6", "--evaluate.every", "3", "--tracking.samples_every", "3", "--checkpoint.every", "2"),
    *("--optimiser.lr", "0.02"),  # large enough for six steps to change the samples
)


def test_from_init_to_samples(call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = call("init", "mine")
    assert made.code == 0
    assert re.search(r"cd mine\n  steelyard check steelyard.toml.*\n  steelyard train steelyard.toml", made.out)
    monkeypatch.chdir(folder / "mine")

    checked = call("check", "steelyard.toml", "--tasks", "2", "--samples", "8", *TINY)
    assert checked.code == 0
    for text in ("2 tasks × 8 samples", "time per sample", "dead groups", "same verdict twice", "100%", "rejected:"):
        assert text in checked.out
    assert not Path("runs").exists(), "a check leaves no files"

    trained = call("train", "steelyard.toml", *TINY, *TRAIN)
    assert trained.code == 0
    assert "step 6/6" in trained.out
    assert "samples at step 3" in trained.out
    assert "steelyard eval runs/numbers" in trained.out
    assert trained.err == "", "libraries print nothing"
    assert "curves: runs/numbers/curves.svg\n" in trained.out
    curves = Path("runs/numbers/curves.svg").read_text(encoding="utf-8")
    assert all(f">{title}</text>" in curves for title in ("Reward", "Eval success", "Entropy", "Time per step"))
    steps = [row["step"] for row in read_metrics(Path("runs/numbers/metrics.jsonl"))]
    assert steps == [0, 1, 2, 3, 4, 5, 6]
    assert Path("runs/numbers/artifacts/samples-00000006.md").is_file()

    judged = call("eval", "runs/numbers", "--k", "1,2,8", "--tasks", "4", "--evaluate.temperature", "0.5")
    assert judged.code == 0
    assert "runs/numbers at step 6: 4 held-out tasks × 8 samples, temperature 0.5 (evaluate.temperature)" in judged.out
    for text in ("best of 8", "pass@8", "distinct outputs"):
        assert text in judged.out

    first, again = (call("eval", "numbers", "--checkpoint", which, "--json") for which in ("4", "start"))
    report = json.loads(first.out)
    assert report["model"].endswith("numbers at step 4")
    assert set(report["pass_at"]) == {"1", "4"}
    assert report["temperature"] == 1.0
    assert report["reward"]["low"] <= report["reward"]["mean"] <= report["reward"]["high"]
    assert json.loads(again.out)["model"].endswith("before training")
    assert json.loads(again.out)["reward"] != report["reward"]

    shown = call("sample", "runs/numbers/checkpoints/step-00000006/model", "--n", "2", "--tasks", "2")
    assert shown.code == 0
    assert shown.out.count("reward ") == 4
    assert "temperature 1 (sampling.temperature)" in shown.out
    own = call("sample", "runs/numbers", "--n", "1", "--prompt", "write 2 odd =", "--spec", '{"kind": "odd"}')
    assert "write 2 odd =" in own.out
    unknown = call("sample", "runs/numbers", "--prompt", "leap 2 odd =")
    assert unknown.code == 2
    assert "closed vocabulary: leap;" in unknown.err


def test_sampling_a_prompt_needs_no_verifier_and_scoring_names_missing_columns(call: Call) -> None:
    call("init")
    call("train", "steelyard.toml", *TINY, "--run.steps", "1", "--evaluate.every", "0", "--verify.pool", "inline")
    prompt = ("sample", "runs/numbers", "--n", "2", "--prompt", "write 2 odd =")
    assert call(*prompt, "--score", "--spec", '{"kind": "odd", "count": 2}').code == 0

    lacking = call(*prompt, "--score")
    assert lacking.code == 0, lacking.err
    assert "KeyError: 'kind'" in lacking.out
    assert "count, kind" in lacking.out
    assert """--spec '{"count": "…", "kind": "…"}'""" in lacking.out
    Path("tasks.jsonl").unlink()
    assert "columns: kind. Pass them" in call(*prompt, "--score").out, "only the column in the error is known"

    Path("verifier.py").write_text("raise RuntimeError('imported')", encoding="utf-8")
    del sys.modules["verifier"]
    shown = call(*prompt)
    assert shown.code == 0, shown.err
    assert "\n2 " in shown.out
    assert "reward" not in shown.out
    assert call(*prompt, "--score").code == 2


def test_a_model_folder_can_be_evaluated_with_a_recipe(call: Call) -> None:
    call("init")
    call("train", "steelyard.toml", *TINY, "--run.steps", "1", "--evaluate.every", "0", "--optimiser.warmup_steps", "0")
    Path("runs/numbers/checkpoints/step-00000001/model").rename("model")
    refused = call("eval", "model")
    assert (refused.code, refused.out) == (2, "")
    assert "--recipe FILE" in refused.err
    judged = call("eval", "model", "--recipe", "steelyard.toml", "--json")
    assert json.loads(judged.out)["tasks"] == 4
    shown = call("sample", "model", "--prompt", "write 2 odd =", "--n", "1", "--sampling.max_new_tokens", "4")
    assert shown.code == 0, shown.err
    assert "reward" not in shown.out, "a bare model has no verifier"
    refused = call("sample", "model", "--prompt", "write 2 odd =", "--score")
    assert refused.code == 2
    assert "--verify.verifier" in refused.err


def test_check_fails_with_advice_if_the_verifier_fails(call: Call) -> None:
    call("init")
    Path("broken.py").write_text("def score(task, text):\n    return task.spec['nowhere']\n", encoding="utf-8")
    checked = call("check", "steelyard.toml", "--tasks", "1", *TINY, "--verify.verifier", "broken:score")
    assert checked.code == 1
    assert "KeyError: 'nowhere'" in checked.out
    assert "called as f(task, text)" in checked.out

    trained = call("train", "steelyard.toml", *TINY, "--verify.verifier", "broken:score", "--evaluate.every", "0")
    assert trained.code == 2
    assert "verification failed for" in trained.err
    assert "steelyard train --resume runs/numbers" in trained.err
    assert trained.err.count("Traceback") == 1, "the verifier's traceback only"


def test_doctor_lists_what_is_installed_and_what_fits(call: Call) -> None:
    call("init")
    call("train", "steelyard.toml", *TINY, "--run.steps", "1", "--evaluate.every", "0", "--optimiser.warmup_steps", "0")
    found = call("doctor", "--model", "runs/numbers/checkpoints/step-00000001/model")
    assert found.code == 0
    for text in ("torch 2.", "cpu: ", "sandbox ", "sequences", "LoRA 64, 4-bit base", "fits"):
        assert text in found.out
