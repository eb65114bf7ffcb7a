"""A mistake gets one clean message, exit code 2, no traceback, and no wait for torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from steelyard.errors import ConfigError

from .conftest import Call

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = sys.modules["transformers"] = None  # importing them fails
from steelyard.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "sequences", "--optimiser.learning_rate", "1"], "optimiser.learning_rate = 1: unknown key"),
        (["train", "sequences", "--run.step", "5"], "did you mean run.steps?"),
        (["train", "sequences", "--steps", "5"], "unknown option --steps; did you mean --run.steps"),
        (["train", "sequnces"], "did you mean sequences?"),
        (["train"], "say what to train"),
        (["train", "sequences", "--resume", "runs/x"], "say what to train"),
        (["train", "sequences", "text"], "cannot read 'text'"),
        (["train", "--resume", "nowhere"], "nowhere is no run folder"),
        (["trian"], "there is no command 'trian'; did you mean train?"),
        (["check", "sequences", "--samples", "1"], "at least two samples"),
        (["eval", "runs/x", "--k", "1,few"], "--k 1,few"),
        (["eval", "runs/x", "--k", "8", "--samples", "4"], "pass@8 needs at least 8 samples"),
        (["sample", "runs/x", "--spec", "{}"], "go with --prompt"),
        (["doctor", "--run.steps", "5"], "doctor takes no --run.steps"),
        (["verify", "bricks", "nowhere.txt"], "nowhere.txt: no such file"),
        (["render", "sequences", "some.txt"], "domain sequences has no pictures"),
        (["export", "bricks", "some.txt", "--out", "some.stl"], "one of .ldr, .gltf, .obj"),
    ],
)
def test_a_mistake_is_told_at_once(words: list[str], said: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *words], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("steelyard: ")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "steelyard train sequences"),
        (["--help"], "steelyard COMMAND --help"),
        (["--version"], "steelyard "),
        (["init", "mine"], "wrote mine/"),
        (["train", "--help"], "--loss.kl.coefficient"),
        (["eval", "--help"], "--checkpoint"),
    ],
)
def test_help_and_init_need_no_torch(words: list[str], said: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *words], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_debug_shows_the_traceback(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError):
        call("train", "nothing", "--debug")
    monkeypatch.setenv("STEELYARD_DEBUG", "1")
    with pytest.raises(ConfigError):
        call("train", "nothing")


def test_a_taken_folder_is_not_written_into(call: Call) -> None:
    call("init")
    again = call("init")
    assert again.code == 2
    assert "nothing was written" in again.err
