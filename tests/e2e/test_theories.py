"""The theories domain: a run with a warm start, exact resuming, samples, an atlas, and model files."""

from __future__ import annotations

import re
import shlex
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

from steelyard.domains.theories.grammar.starting_points import standard_model_text
from steelyard.domains.theories.grammar.text import with_line_breaks
from steelyard.domains.theories.interchange import pyrate_reader
from steelyard.domains.theories.physics.invariance import flaws
from steelyard.tracking import read_metrics

from .conftest import Call

SMALL = (
    *("--model.scratch.width", "32", "--model.scratch.heads", "2", "--model.scratch.layers", "1"),
    *("--warmstart.examples", "64", "--warmstart.batch", "16", "--warmstart.warmup_steps", "1"),
    *("--sampling.tasks_per_step", "2", "--sampling.group_size", "4", "--domain.options.limits.groups", "2"),
    *("--domain.options.required_factors", "[]", "--evaluate.tasks", "2", "--optimiser.warmup_steps", "0"),
)


def test_a_run_from_the_warm_start_to_samples(call: Call) -> None:
    trained = call("train", "theories", *SMALL, "--run.steps", "2", "--checkpoint.every", "1")
    assert trained.code == 0, trained.err
    assert "warm start: 4 updates" in trained.err
    run = Path("runs/theories")
    rows = read_metrics(run / "metrics.jsonl")
    assert rows[-1]["share/scored"] == 1.0
    assert rows[-1]["importance/log_abs_max"] < 1e-4

    shutil.rmtree(run / "checkpoints" / "step-00000002")
    resumed = call("train", "--resume", str(run))
    assert resumed.code == 0, resumed.err
    assert read_metrics(run / "metrics.jsonl")[-1]["reward/mean"] == rows[-1]["reward/mean"]

    seen = call("sample", str(run), "--n", "2", "--tasks", "1")
    assert seen.code == 0, seen.err
    assert seen.out.count("GAUGE") == 2
    assert "anomalies" in seen.out


def test_a_model_in_a_file_can_be_verified(call: Call) -> None:
    Path("sm.txt").write_text(with_line_breaks(standard_model_text()), encoding="utf-8")
    judged = call("verify", "theories", "sm.txt")
    assert judged.code == 0, judged.err
    assert "success: reward 1" in judged.out


def test_from_a_run_to_an_atlas_and_a_model_file(call: Call) -> None:
    assert call("train", "theories", *SMALL, "--run.steps", "2", "--tracking.samples_every", "1").code == 0
    run = Path("runs/theories")
    assert (run / "artifacts" / "samples-00000002.svg").exists()

    told = call("report", "runs/theories", "--n", "4", "--tasks", "2")
    assert told.code == 0, told.err
    assert re.search(r"\d+ of 8 samples are consistent theories \(8 readable\)", told.out)
    assert "<h1>runs/theories at step 2</h1>" in (run / "report.html").read_text(encoding="utf-8")

    made = call("render", "runs/theories", "--n", "3")
    assert made.code == 0, made.err
    (shelf,) = (run / "renders" / "step-00000002").iterdir()
    assert {path.name for path in shelf.iterdir()} == {"01.txt", "02.txt", "03.txt", "sheet.svg"}
    sheet = list(ET.parse(shelf / "sheet.svg").getroot())
    assert sum(part.tag.endswith("svg") for part in sheet) == 3
    title, origin = (str(part.text) for part in sheet if part.tag.endswith("text"))
    assert title.startswith("a theory of ")
    assert shelf.name[3:] in origin, "the id is in small print"

    command = re.search(r"^  (steelyard export .*)$", made.out, re.MULTILINE)
    assert command
    assert call(*shlex.split(command[1])[1:]).code == 0
    model = pyrate_reader.read(Path("best.model").read_text(encoding="utf-8"))
    assert flaws(model) == []

    judged = call("verify", "runs/theories", "best.model", "--no-picture")
    assert judged.code in (0, 1)
    assert "condition" in judged.out
