"""From a tiny run of theories to an atlas, pictures and a PyR@TE model, as a user would go."""

from __future__ import annotations

import re
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from steelyard.domains.theories import pyrate_reader
from steelyard.domains.theories.invariance import flaws

from .conftest import Call

SMALL = {
    "run.steps": "2",
    "model.scratch.layers": "1",
    "model.scratch.width": "32",
    "model.scratch.heads": "2",
    "warmstart.examples": "128",
    "warmstart.warmup_steps": "1",
    "optimiser.warmup_steps": "0",
    "sampling.tasks_per_step": "2",
    "sampling.group_size": "4",
    "tracking.samples_every": "1",
}


@pytest.fixture
def trained(call: Call) -> Path:
    options = [word for key, value in SMALL.items() for word in (f"--{key}", value)]
    assert call("train", "theories", *options).code == 0
    return Path("runs/theories")


def test_from_a_run_to_an_atlas_and_a_model_file(call: Call, trained: Path) -> None:
    assert (trained / "artifacts" / "samples-00000002.svg").exists()

    told = call("report", "runs/theories", "--n", "4", "--tasks", "2")
    assert told.code == 0, told.err
    assert re.search(r"distinct theories among \d+ consistent ones \(8 samples, 8 readable\)", told.out)
    assert "<h1>runs/theories at step 2</h1>" in (trained / "report.html").read_text(encoding="utf-8")

    made = call("render", "runs/theories", "--n", "3")
    assert made.code == 0, made.err
    (shelf,) = (trained / "looks" / "step-00000002").iterdir()
    assert {path.name for path in shelf.iterdir()} == {"01.txt", "02.txt", "03.txt", "sheet.svg"}
    assert len(list(ET.parse(shelf / "sheet.svg").getroot())) == 4

    command = re.search(r"^  (steelyard export .*)$", made.out, re.MULTILINE)
    assert command
    assert call(*shlex.split(command[1])[1:]).code == 0
    model = pyrate_reader.read(Path("best.model").read_text(encoding="utf-8"))
    assert flaws(model) == []

    judged = call("verify", "runs/theories", "best.model", "--no-picture")
    assert judged.code in (0, 1)
    assert "condition" in judged.out
