"""Episodes for new users: the files in docs/episodes.md, and a domain whose verifier is an environment."""

from __future__ import annotations

import json
import re
import shlex
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from steelyard.tracking import read_metrics
from tests.e2e.conftest import Call

PAGE = Path(__file__).parents[3] / "docs/episodes.md"
LINES_PER_ENVIRONMENT = 20
DOMAIN = """
from games import Guess
from steelyard import Task
from steelyard.domains import Domain


class Numbers(Domain):
    def size(self, split):
        return 2

    def task(self, split, index):
        return Task(f"{split}-{index}", "find it", {"hidden": index})

    def verifier(self):
        return Guess()
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def games(folder: Path) -> Any:
    """Write the files shown on the page, shorten the run, and return its module."""
    Path("games.py").write_text(blocks("python")[0], encoding="utf-8")
    quick = "steps = 2\n\n[tracking]\nsamples_every = 1\nconsole = false\n\n[evaluate]\nsamples = 4\n"
    recipe = blocks("toml")[0].replace("steps = 200\n", quick).replace("group_size = 16", "group_size = 4")
    recipe = recipe.replace('verifier = "games:Guess"\n', 'verifier = "games:Guess"\npool = "inline"\n')
    Path("guess.toml").write_text(recipe, encoding="utf-8")
    rows = [json.dumps({"prompt": "find it", "hidden": hidden}) for hidden in range(8)]
    Path("tasks.jsonl").write_text("\n".join(rows), encoding="utf-8")
    sys.path.insert(0, str(folder))
    return import_module("games")


def test_the_page_works(call: Call, games: Any, capsys: pytest.CaptureFixture[str]) -> None:
    classes = re.split(r"^class (?:Guess|OneDigit|Dice)", blocks("python")[0], flags=re.MULTILINE)[1:]
    assert max(len(code.strip().splitlines()) for code in classes) <= LINES_PER_ENVIRONMENT
    (commands,) = blocks("sh")
    outputs: dict[str, str] = {}
    for words in (shlex.split(line, comments=True) for line in commands.splitlines()):
        done = call(*words[1:])
        assert done.code == 0, f"{words}: {done.err}"
        outputs[words[1]] = done.out
    assert "4 tasks × 4 episodes" in outputs["check"]
    assert re.search(r"same answers twice +│ 100%", outputs["check"])
    assert "time per reply" in outputs["check"]
    assert re.search(r"^│ \d  \(reward -0\.1\)\n> (higher|lower)$", outputs["sample"], re.MULTILINE)
    assert "turns per episode" in outputs["eval"]
    *_, last = read_metrics(Path("runs/guess/metrics.jsonl"))
    assert last["episode/turns"] > 1
    assert re.search(r"^> (higher|lower)$", Path("runs/guess/artifacts/samples-00000002.md").read_text(), re.MULTILINE)

    quick = '"steps": 1}, tracking={"console": False}, verify={"pool": "inline"}'
    exec(blocks("python")[1].replace('"steps": 60}', quick), {})
    printed = capsys.readouterr().out
    assert printed.startswith("play\n  1  re")
    assert "  │ " in printed


def test_the_commands_work_on_a_domain_with_an_environment(call: Call, games: Any) -> None:
    Path("numbers_domain.py").write_text(DOMAIN, encoding="utf-8")
    recipe = Path("guess.toml").read_text().replace('[tasks]\nfile = "tasks.jsonl"\n', "")
    named = '[domain]\nname = "numbers_domain:Numbers"\n\n[verify]\n'
    recipe = recipe.replace('[verify]\nverifier = "games:Guess"\n', named)
    Path("domain.toml").write_text(recipe, encoding="utf-8")
    assert call("train", "domain.toml").code == 0
    rendered = call("render", "runs/guess", "--n", "2")
    assert rendered.code == 0, rendered.err
    for file in Path("runs/guess/renders").glob("*/*/*.txt"):
        assert not re.search("higher.|lower.", file.read_text()), "an artifact is one turn, not all turns joined"
    assert call("report", "runs/guess", "--n", "2", "--tasks", "2").code == 0
    assert call("sample", "runs/guess", "--page", "samples.html").code == 0
    assert '<span class="reply">&gt; ' in Path("samples.html").read_text(encoding="utf-8")
    Path("mine.txt").write_text("1\n", encoding="utf-8")
    verify = ("verify", "runs/guess", "mine.txt", "--no-picture", "--spec")
    assert "success: reward 1" in call(*verify, '{"hidden": 1}').out
    unfinished = call(*verify, '{"hidden": 2}')
    assert unfinished.code == 1
    assert "> higher" in unfinished.out
    assert "first turn of an episode" in unfinished.out


def test_mistakes_are_named_with_their_solution(call: Call, games: Any) -> None:
    Path("cold.py").write_text(
        "from steelyard import Environment\n\n\nclass Cold(Environment):\n    def reply(self, task, turns):\n"
        "        return 'warm'\n",
        encoding="utf-8",
    )
    unknown = call("check", "guess.toml", "--verify.verifier", "cold:Cold", "--sampling.max_new_tokens", "9")
    assert unknown.code != 0
    assert "warm" in unknown.out + unknown.err
    assert "model.scratch.vocabulary" in unknown.out + unknown.err
    held_out = call("train", "guess.toml", "--tasks.held_out", "2")
    assert held_out.code != 0
    assert "tasks.eval_file" in held_out.err
