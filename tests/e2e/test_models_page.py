"""The commands in docs/models.md are valid, and its Python example runs with the real SmolLM2."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from steelyard.cli import COMMANDS, parser_of, split_overrides
from steelyard.policies.tokens import chat_template
from steelyard.pretrained.catalogue import MODELS
from steelyard.tracking import read_metrics

from .conftest import Call

SHORT = ("--n", "1", "--sampling.max_new_tokens=8")
PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    lines = [line.partition(" #")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("steelyard")]


@pytest.mark.parametrize("line", commands())
def test_every_command_is_accepted(line: str) -> None:
    name, *words = shlex.split(line)[1:]
    plain, _ = split_overrides(words)
    parser_of(name, import_module(f"steelyard.commands.{COMMANDS[name][0]}")).parse_args(plain)


@pytest.mark.slow
def test_the_example_trains_the_real_model(call: Call) -> None:
    if not MODELS["smollm2"].is_downloaded:
        pytest.skip("SmolLM2 is not installed; run `steelyard fetch smollm2` (93 MB)")
    (program,) = blocks("python")
    for long, short in (('"steps": 20', '"steps": 1'), ('"tasks_per_step": 4', '"tasks_per_step": 1'), ("8, ", "4, ")):
        assert long in program
        program = program.replace(long, short)
    program = program.replace('recipe="text",', 'recipe="text", evaluate={"every": 0}, optimiser={"warmup_steps": 0},')
    exec(compile(program, "models.md", "exec"), {"__name__": "__main__"})
    (row,) = read_metrics(Path("runs/plus/metrics.jsonl"))
    assert row["reward/mean"] > 0, "prompted through its chat template, the model answers"
    config = Path("runs/plus/config.toml").read_text()
    assert 'chat = "auto"' in config
    assert 'dtype = "float32"' in config or 'dtype = "bfloat16"' in config

    sampled = call("sample", "smollm2", "--prompt", "What is the capital of France?", *SHORT)
    assert sampled.code == 0, sampled.err
    assert "Paris" in sampled.out
    chat_template._renderer.close()
