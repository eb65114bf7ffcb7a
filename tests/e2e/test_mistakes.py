"""A user error gives one clear message, exit code 2 and no traceback, without waiting for torch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import steelyard
from steelyard.errors import ConfigError
from tests.tiny import tiny_policy

from .conftest import Call

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = sys.modules["transformers"] = None  # importing them fails
from steelyard.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "sequences", "--optimiser.learning_rate", "1"], "optimiser.learning_rate = 1: unknown key"),
        (["train", "sequences", "--run.step", "5"], "did you mean run.steps?"),
        (["train", "sequences", "--steps", "5"], "unknown option --steps; did you mean --run.steps"),
        (["train", "sequnces"], "did you mean sequences?"),
        (["train"], "--resume RUN"),
        (["train", "sequences", "--resume", "runs/x"], "pass either a recipe"),
        (["train", "sequences", "text"], "unexpected argument 'text'"),
        (["train", "--resume", "nowhere"], "nowhere is not a run folder"),
        (["trian"], "there is no command 'trian'; did you mean train?"),
        (["check", "sequences", "--samples", "1"], "at least two samples"),
        (["eval", "runs/x", "--k", "1,few"], "--k 1,few"),
        (["eval", "runs/x", "--k", "8", "--samples", "4"], "pass@8 needs at least 8 samples"),
        (["sample", "runs/x", "--chat"], "--prompt"),
        (["doctor", "--run.steps", "5"], "doctor does not accept --run.steps"),
        (["render", "runs/nope"], "runs/nope: no such run or model"),
        (["report", "nope"], "nope: no such run or model"),
        (["eval", "runs/nope"], "runs/nope: no such run or model"),
        (["verify", "bricks", "nowhere.txt"], "nowhere.txt: no such file"),
        (["render", "nowhere:Domain", "some.txt"], "no module 'nowhere'"),
        (["report", "sequence", "some.txt"], "did you mean sequences?"),
        (["export", "bricks", "some.txt", "--out", "some.stl"], "one of .ldr, .gltf, .obj"),
    ],
)
def test_a_mistake_is_reported_without_torch(words: list[str], message: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *words], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("steelyard: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "steelyard train sequences"),
        (["--help"], "steelyard COMMAND --help"),
        (["--version"], "steelyard "),
        (["init", "mine"], "wrote mine/"),
        (["train", "--help"], "--loss.kl.coefficient"),
        (["render", "--help"], "domains: arithmetic, bricks, bricks-repair, guess, infill, sequences, theories"),
        (["report", "--help"], "domains: arithmetic, bricks, bricks-repair, guess, infill, sequences, theories"),
        (["eval", "--help"], "--checkpoint"),
    ],
)
def test_help_and_init_need_no_torch(words: list[str], message: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *words], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert message in done.stdout


OWN = """
run.steps = 1
tasks.prompts = ["a"]
verify = {verifier = "own:score", pool = "inline"}
sampling = {max_new_tokens = 4, group_size = 2, tasks_per_step = 1}
tracking.console = false
"""
SCORE = """
import steelyard

@steelyard.verifier(version="1", deterministic=True)
def score(task, text):
    return len(text)
"""
SMALL = ("--model.scratch.vocabulary", '["a", "b"]', "--model.scratch.width", "16", "--model.scratch.layers", "1")
SMALL += ("--model.scratch.heads", "2", "--model.scratch.kv_heads", "1", "--model.scratch.max_length", "32")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*SMALL, "--model.lora.targets", '["query"]'], "model.lora.targets ('query',) cannot be used"),
        ([*SMALL, "--model.lora.adapter", "nowhere"], "model.lora.adapter 'nowhere' cannot be loaded"),
        ([*SMALL, "--model.attention", "flash_attention_2"], "model.attention 'flash_attention_2' cannot be used"),
        (["--model.path", "nowhere/at/all"], "model.path 'nowhere/at/all' cannot be loaded"),
        (["--model.path", "odd"], "model.path 'odd' cannot be loaded as model.kind 'causal'"),
        (["--model.path", "masked"], "model.path 'masked' cannot be loaded as model.kind 'causal'"),
        ([*SMALL, "--constraint.kind", "regex", "--constraint.file", "none.txt"], "constraint.file none.txt: No such"),
        (
            [*SMALL, "--constraint.kind", "choices", "--constraint.file", "own.py"],
            "constraint.file own.py: not valid JSON",
        ),
        ([*SMALL, "--constraint.kind", "regex", "--constraint.file", "latin.jsonl"], "latin.jsonl: not UTF-8"),
        ([*SMALL, "--tasks.prompts", "none", "--tasks.file", "latin.jsonl"], "latin.jsonl, line 2: not UTF-8"),
        ([*SMALL, "--tasks.prompts", "none", "--tasks.file", "latin.json"], "latin.json: not UTF-8"),
        ([*SMALL, "--verify.cache", "odd"], "verdict cache odd: unable to open database file"),
        ([*SMALL, "--verify.cache", "own.py/verdicts"], "verdict cache own.py/verdicts: "),
    ],
)
def test_an_error_while_building_the_run_names_its_key(words: list[str], message: str, call: Call) -> None:
    Path("own.toml").write_text(OWN, encoding="utf-8")
    Path("own.py").write_text(SCORE, encoding="utf-8")
    Path("latin.jsonl").write_bytes(b'{"prompt": "a"}\n{"prompt": "caf\xe9"}\n')
    Path("latin.json").write_bytes(b'["caf\xe9"]')
    Path("odd").mkdir()
    Path("odd/config.json").write_text('{"model_type": "nonsense"}', encoding="utf-8")
    if "masked" in words:
        tiny_policy(kind="masked").save_pretrained(Path("masked"))
    done = call("train", "own.toml", *words)
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("bad.toml", "bad.toml: not valid TOML"),
        ({"run.steps": 5}, "run.steps = 5 is not a table; write {'run': {'steps': 5}}"),
        ({"run": 5}, "run = 5 is not a table"),
    ],
)
def test_an_unreadable_recipe_from_python_is_explained(recipe: Any, message: str) -> None:
    Path("bad.toml").write_text("[run\nsteps = 3", encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(message)):
        steelyard.train(recipe=recipe)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"steps": 5}, 'did you mean run={"steps": 5}?'),
        ({"lr": 1e-3}, 'did you mean optimiser={"lr": 0.001}?'),
        ({"group_size": 8}, 'did you mean sampling={"group_size": 8}?'),
        ({"group_sise": 8}, 'did you mean sampling={"group_size": 8}?'),
        ({"temperature": 0.5}, 'did you mean sampling={"temperature": 0.5} or evaluate={"temperature": 0.5}?'),
        ({"examples": 9}, 'did you mean warmstart={"examples": 9} or judge={"examples": 9}?'),
        ({"run": 5}, "run = 5 is not a table"),
    ],
)
def test_a_key_without_its_section_is_answered_with_the_section(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        steelyard.train(recipe="sequences", **keys)


def test_debug_shows_the_traceback(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError):
        call("train", "nothing", "--debug")
    monkeypatch.setenv("STEELYARD_DEBUG", "1")
    with pytest.raises(ConfigError):
        call("train", "nothing")


def test_an_existing_project_is_not_overwritten(call: Call) -> None:
    call("init")
    again = call("init")
    assert again.code == 2
    assert "nothing was written" in again.err
