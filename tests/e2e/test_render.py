"""From a tiny bricks run to pictures, texts and an LDraw file."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from steelyard.domains.bricks import World, parse

from .conftest import Call

pytest.importorskip("highspy")

RUN = """
[run]
name = "tiny"
steps = 2

[model]
device = "cpu"

[model.scratch]
layers = 1
width = 32
heads = 2
kv_heads = 1
max_length = 64

[domain]
name = "bricks"

[domain.options]
kinds = ["tower", "wall"]
action = "two_step"
max_bricks = 6
max_difficulty = 6.0
world_size = [24, 8, 8]

[sampling]
tasks_per_step = 2
group_size = 4
max_new_tokens = 31

[verify]
pool = "inline"

[optimiser]
warmup_steps = 0

[tracking]
samples_every = 1
"""


@pytest.fixture
def trained(call: Call, folder: Path) -> Path:
    (folder / "tiny.toml").write_text(RUN, encoding="utf-8")
    assert call("train", "tiny.toml").code == 0
    return Path("runs/tiny")


def test_a_run_draws_the_samples_it_shows(trained: Path) -> None:
    page = (trained / "artifacts" / "samples-00000002.md").read_text(encoding="utf-8")
    assert "![the samples](samples-00000002.svg)" in page
    picture = ET.parse(trained / "artifacts" / "samples-00000002.svg").getroot()
    labels = [str(element.text) for element in picture if element.tag.endswith("text")]
    assert sum(label.startswith("best · ") for label in labels) == 1
    assert sum(label.startswith("worst · ") for label in labels) == 1
    shown = [json.loads(line) for line in (trained / "artifacts" / "samples-00000002.jsonl").read_text().splitlines()]
    captions = " ".join(labels)
    assert not any(row["task_id"] in captions for row in shown), "captions describe the task instead of naming its id"
    assert " studs" in captions


def test_from_a_run_to_an_ldraw_file(call: Call, trained: Path) -> None:
    made = call("render", "runs/tiny", "--tasks", "2", "--n", "3")
    assert made.code == 0, made.err
    assert "runs/tiny at step 2: 2 held-out tasks × 3 samples" in made.out
    shelves = sorted((trained / "renders" / "step-00000002").iterdir())
    assert [shelf.name[:3] for shelf in shelves] == ["01-", "02-"]
    for shelf in shelves:
        names = {path.name for path in shelf.iterdir()}
        assert names == {"01.txt", "02.txt", "03.txt", "sheet.svg", "sheet.png"}
        for text in shelf.glob("*.txt"):
            parse(text.read_text(encoding="utf-8"), World((24, 8, 8)))
        labels = [str(one.text) for one in ET.parse(shelf / "sheet.svg").getroot() if one.tag.endswith("text")]
        rewards = [float(label.split()[1]) for label in labels if label.startswith("reward ")]
        assert len(rewards) == 3
        title = next(number for number, label in enumerate(labels) if "runs/tiny at step 2" in label)
        assert shelf.name[3:] in labels[title], "the id is in small print"
        assert shelf.name[3:] not in " ".join(labels[:title])
        assert " stud" in " ".join(labels[:title])
        assert rewards == sorted(rewards, reverse=True), "best first"

    command = re.search(r"^  (steelyard export .*)$", made.out, re.MULTILINE)
    assert command
    exported = call(*shlex.split(command[1])[1:])
    assert exported.code == 0, exported.err
    assert ".dat" in Path("best.ldr").read_text(encoding="utf-8")

    again = call("render", "tiny", "--n", "2", "--checkpoint", "start", "--out", "elsewhere", "--colour-by", "stress")
    assert again.code == 0, again.err
    assert "runs/tiny before training" in again.out
    (shelf,) = Path("elsewhere").iterdir()
    (shelf / "07.txt").write_text("from an earlier call", encoding="utf-8")
    (shelf / "mine.txt").write_text("mine", encoding="utf-8")
    call("render", "tiny", "--n", "1", "--checkpoint", "start", "--out", "elsewhere")
    assert {path.name for path in shelf.iterdir()} == {"01.txt", "mine.txt", "sheet.svg", "sheet.png"}

    judged = call("verify", "runs/tiny", str(shelf / "01.txt"), "--no-picture")
    assert judged.code in (0, 1)
    assert "largest pull" in judged.out
    wrong = call("render", "runs/tiny", "--out", "sheet.png")
    assert wrong.code == 2
    assert "--out sheet.png must be a folder" in wrong.err


def test_a_run_without_a_domain_cannot_be_rendered(call: Call) -> None:
    call("init")
    call("train", "steelyard.toml", "--run.steps", "1", "--evaluate.every", "0", "--optimiser.warmup_steps", "0")
    refused = call("render", "runs/numbers")
    assert refused.code == 2
    assert "steelyard sample" in refused.err
    assert "numbers has no domain" in refused.err


LEOCAD = ("leocad", "xvfb-run")
CRANE = Path(__file__).parents[2] / "docs" / "images" / "crane.txt"


@pytest.mark.skipif(not all(map(shutil.which, LEOCAD)), reason="LeoCAD and xvfb are not installed")
def test_leocad_renders_the_export_like_our_picture(call: Call) -> None:
    """Each colour is in the same place in both pictures, so no part is missing, rotated or mirrored."""
    assert call("export", "bricks", str(CRANE), "--out", "crane.ldr").code == 0
    assert call("render", "bricks", str(CRANE), "--out", "crane.png").code == 0
    view = ["-w", "380", "-h", "380", "--orthographic", "--camera-angles", "35.26", "135"]
    command = ["xvfb-run", "-a", "leocad", "-i", "leocad.png", *view, "crane.ldr"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    ours, theirs = (picture_of(Path(name)) for name in ("crane.png", "leocad.png"))
    for one, other in (("yellow", "blue"), ("yellow", "green"), ("green", "blue")):
        here, there = (centre(picture, one) - centre(picture, other) for picture in (ours, theirs))
        cosine = here @ there / np.linalg.norm(here) / np.linalg.norm(there)
        assert cosine > 0.97, f"from {other} to {one}: {here} in our picture, {there} in LeoCAD's"


def picture_of(path: Path) -> np.ndarray:
    Image = pytest.importorskip("PIL.Image")
    with Image.open(path) as image:
        return np.asarray(image.convert("RGBA"), float)


def centre(picture: np.ndarray, colour: str) -> np.ndarray:
    """Return the mean position (x, y) of all pixels with a colour."""
    red, green, blue, alpha = np.moveaxis(picture, 2, 0)
    matches = {
        "yellow": (red > 140) & (green > 120) & (blue < 100),
        "blue": (blue > 90) & (blue > 1.8 * red) & (blue > 1.3 * green),
        "green": (green > 80) & (green > 1.3 * red) & (green > 1.8 * blue),
    }[colour] & (alpha > 200)
    y, x = np.nonzero(matches)
    assert len(x) > 200, f"nothing is {colour}"
    return np.array([x.mean(), y.mean()])
