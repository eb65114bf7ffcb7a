"""docs/metrics.md explains every metric of a run and every term on the panel."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import steelyard
from steelyard.cli import parser_of
from steelyard.commands import train
from steelyard.tracking import Activity, ConsoleTracker, read_metrics
from steelyard.tracking.activity import PHASES
from steelyard.tracking.log_lines import step_line
from steelyard.tracking.panel import TrainingPanel
from steelyard.training.learner import METRIC_NAMES
from steelyard.training.metrics import episode_metrics
from steelyard.types import SampleKey, SampleSummary, Task, Verdict
from steelyard.verification.base import Cause

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
PANEL, _, KEYS = PAGE.partition("## Keys of metrics.jsonl")
MARKED = re.findall(r"`([^`]+)`", " ".join(re.findall(r"^\| (`[^|]+)\|", KEYS, re.MULTILINE)))
"""Keys in the first column of the table."""
WORDS = {word for marked in re.findall(r"`([^`]+)`", PANEL) for word in re.findall(r"[\w@/]+", marked)}
PATTERNS = [re.sub("NAME|CAUSE", ".+", re.escape(key)).replace("@K", r"@\d+") for key in MARKED]
KEY = re.compile("|".join(PATTERNS))

SCRATCH = {"scratch": {"layers": 1, "width": 16, "heads": 2, "vocabulary": ["say", "a", "b"], "max_length": 16}}
BASE: dict[str, dict[str, Any]] = {
    "run": {"steps": 2},
    "model": SCRATCH,
    "sampling": {"tasks_per_step": 2, "group_size": 8, "max_new_tokens": 4},
    "evaluate": {"every": 1, "tasks": 1, "samples": 8, "ks": [1, 2]},
    "tracking": {"console": False},
    "verify": {"pool": "inline", "max_unscored": 1.0},
}
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "plain": {},
    "reference and several updates": {"loss": {"kl": {"coefficient": 0.1}}, "optimiser": {"epochs": 2}},
    "exact KL, refills": {
        "loss": {"kl": {"coefficient": 0.1, "estimator": "exact"}},
        "credit": {"refill_dead_groups": 1},
    },
    "ahead": {"sampling": {**BASE["sampling"], "staleness": 1}},
    "cache": {"verify": {**BASE["verify"], "cache": "verdicts.sqlite"}},
}


@steelyard.verifier(version="1", deterministic=True)
def parted(task: Task, text: str) -> Verdict:
    """Return parts, a rejection or a failure, depending on the first word."""
    words = text.split()
    if words[:1] == ["say"]:
        return Verdict.rejected("no answer", floor=-1.0)
    if words[:1] == ["b"]:
        return Verdict.unscored("solver lost", "connection closed")
    share = words.count("a") / 4
    return Verdict.scored(share, success=share > 0.5, parts={"share": share, "of/its own": 1.0})


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_metric_of_a_run_is_documented(variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tables = {**BASE, **VARIANTS[variant]}
    steelyard.train(tasks=["say a", "say b"], eval_tasks=["say b a"], verifier=parted, recipe=tables)
    rows = read_metrics(tmp_path / "runs/run/metrics.jsonl")
    keys = {key for row in rows for key in row}
    assert {"eval/parts/share", "parts/of/its own/mean", "eval/pass@2", "unscored/solver lost"} <= keys
    assert [key for key in sorted(keys) if not KEY.fullmatch(key)] == []


def test_every_metric_name_in_the_code_is_documented() -> None:
    names = [*METRIC_NAMES.values(), *(f"unscored/{cause}" for cause in Cause), "pool/retried", "pool/workers_lost"]
    assert [name for name in names if not KEY.fullmatch(name)] == []
    played = episode_metrics([SampleSummary(SampleKey(0, 0, 0, 0), 1, False, 0, turns=2)])
    assert [name for name in [*played, *(f"eval/{name}" for name in played)] if not KEY.fullmatch(name)] == []
    assert [cause for cause in Cause if f"`{cause}`" not in PAGE] == []
    assert [phase.label for phase in PHASES.values() if f"`{phase.label}`" not in PAGE] == []
    assert not KEY.fullmatch("reward/median"), "the test detects a missing key"


def everything() -> dict[str, float]:
    """Return a value for every documented key, so that the panel shows every row and figure."""
    keys = [key.replace("NAME", "share").replace("CAUSE", "timeout").replace("@K", "@4") for key in MARKED]
    return {key: 0.5 for key in keys if not key.endswith("/histogram")}


@pytest.mark.parametrize("step", [0, 1, 2])
def test_every_word_on_the_panel_is_documented(step: int) -> None:
    tracker = ConsoleTracker(10, console=Console(file=io.StringIO(), width=120, force_terminal=False, _environ={}))
    if step:
        tracker.log(1, everything() | {"skipped": 1})
        tracker.log(step, {"reward/mean": 0.5})
    screen = Console(record=True, width=120, file=io.StringIO(), _environ={})
    for phase in PHASES:
        tracker._progress.set_activity(Activity(phase, 1, 2))
        screen.print(TrainingPanel(tracker._progress, ""))
    text = screen.export_text().replace("steelyard", "")
    if step:
        text += step_line(tracker._progress)
    tracker.close()
    words = set(re.findall(r"[A-Za-z][\w@/]*", text)) - {"share"}
    assert sorted(words - {word.replace("@K", "@4") for word in WORDS}) == []


def test_help_and_readme_link_to_the_page() -> None:
    assert "docs/metrics.md" in parser_of("train", train).format_help()
    assert "(docs/metrics.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
