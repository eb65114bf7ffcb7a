"""Tools in Python, as a new user writes them: train, sample, reopen the run, and the README's example."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from pydantic import Field

import steelyard
from steelyard import config as configs
from steelyard.compose import Supplied, build_verifier
from steelyard.compose.verifier_code import verifier_code
from steelyard.environments import Environment, EnvironmentVerifier
from steelyard.errors import ConfigError
from steelyard.folders import read_run, run_table
from steelyard.tools import ToolEnvironment

pytest.importorskip("llguidance")

ROOT = Path(__file__).parents[3]
CHARACTERS = [chr(code) for code in range(32, 127)]
Digit = Annotated[int, Field(ge=0, le=9)]
TINY: dict[str, Any] = {
    "model": {"scratch": {"layers": 1, "width": 32, "heads": 2, "vocabulary": CHARACTERS, "spaced": False,
                          "max_length": 192}},
    "sampling": {"tasks_per_step": 2, "group_size": 8, "max_new_tokens": 90},
    "constraint": {"kind": "tools", "source": "[36]"},
    "verify": {"pool": "inline"},
    "tracking": {"console": False, "samples_every": 0},
}  # fmt: skip


def double(number: Digit) -> int:
    """Double a number."""
    return 2 * number


def right(task: Any, text: str) -> bool:
    return int(text) == 2 * int(task.prompt)


def test_a_policy_calls_a_tool_and_the_learner_scores_what_it_sampled(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)

    def local(number: Digit) -> int:
        return double(number)

    run = steelyard.train(recipe=TINY, tasks=["1", "3"], verifier=right, tools=[local], run={"steps": 1, "name": "t"})
    groups = run.sample(n=16, split="train")
    samples = [sample for group in groups for sample in group.samples]
    called = [sample for sample in samples if len(sample.turns) > 1]
    assert called
    assert all(verdict.has_reward for group in groups for verdict in group.verdicts)
    first, reply, *_ = called[0].turns
    digit = int(first.text.partition('"number": ')[2][0])
    assert (reply.role, reply.text) == ("tool", str(2 * digit))
    for sample in samples:
        with torch.no_grad():
            logp_N = run.policy.evaluate(run.policy.collate([sample])).logp_N.numpy()
        np.testing.assert_allclose(logp_N, sample.decisions.logp_N, atol=1e-5)

    assert run_table(run.folder)["supplied"] == ["tools"]
    with pytest.raises(ConfigError, match=r"tools=…"):
        steelyard.open_run(run.folder).evaluate()
    again = steelyard.open_run(run.folder, tools=[double])
    assert again.config.episode.tools == (f"{__name__}:double",)
    assert again.evaluate(samples=1, k=(1,)).unscored == 0.0


def test_tools_with_a_name_are_stored_by_it(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    run = steelyard.train(
        recipe=TINY, tasks=["1", "3"], verifier=right, tools=[double, "calculator"], run={"steps": 1, "name": "t"}
    )
    config = read_run(run.folder)
    assert config.episode.tools == (f"{__name__}:double", "calculator")
    assert config.run.supplied == ()
    assert __name__ in verifier_code(config, Supplied(verifier=len)), "tools are hashed too"


def test_a_tool_needs_a_verifier_of_final_answers() -> None:
    class Own(Environment):
        def reply(self, task: Any, turns: Any) -> bool:
            return True

    tables = {**TINY, "run": {"supplied": ["verifier", "tasks", "tools"]}}
    config = configs.build(tables, source="test")
    built = build_verifier(config, Supplied(verifier=right, tasks=["1"], tools=[double]))
    assert isinstance(built, EnvironmentVerifier)
    assert isinstance(built.environment, ToolEnvironment)
    with pytest.raises(ConfigError, match="Own is an environment"):
        build_verifier(config, Supplied(verifier=Own(), tasks=["1"], tools=[double]))
    with pytest.raises(ConfigError, match=r"tools = .* must be a list"):
        steelyard.train(recipe=TINY, tasks=["1"], verifier=right, tools=double)


@pytest.mark.slow
def test_the_example_runs_outside_the_repository(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "tool_use.py").read_text(encoding="utf-8")
    assert text.partition("\n\n")[2] in (ROOT / "README.md").read_text(encoding="utf-8")
    (tmp_path / "prices.py").write_text(text.replace('"steps": 50', '"steps": 2'), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "prices.py"], cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "bread" in done.stdout
    assert (tmp_path / "runs" / "prices" / "config.toml").is_file()
