"""The examples in the README and the project created by `steelyard init` show clear learning."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.experience.first_use_trials import readme_blocks as blocks
from steelyard import config as configs
from steelyard.compose import NOTHING_SUPPLIED
from steelyard.run import run
from steelyard.templates import write_template
from steelyard.tracking import read_metrics


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; its modules are unloaded afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("verifier", None)


def ends(folder: Path, metric: str) -> tuple[float, float]:
    """Return the mean of a metric over the first and last tenth of a run."""
    values = [float(row[metric]) for row in read_metrics(folder / "metrics.jsonl") if metric in row]
    tenth = max(1, len(values) // 10)
    return _mean(values[:tenth]), _mean(values[-tenth:])


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values)


@pytest.mark.parametrize(
    ("number", "name", "metric", "low", "high"),
    [(0, "evens", "success", 0.1, 0.6), (1, "sums", "success", 0.15, 0.4), (2, "prices", "success", 0.1, 0.7)],
)
def test_the_examples_in_the_readme_learn(number: int, name: str, metric: str, low: float, high: float) -> None:
    exec(compile("import steelyard\n" + blocks("python")[number], "README.md", "exec"), {"__name__": "__main__"})
    first, last = ends(Path("runs") / name, metric)
    assert first < low
    assert last > high


def test_all_examples_in_the_readme_are_tested() -> None:
    assert len(blocks("python")) == 3


def test_the_project_of_init_learns(folder: Path) -> None:
    write_template(folder)
    quiet = {"evaluate.every": 0, "tracking.console": False}
    run(
        configs.load("steelyard.toml", {**quiet, "run.steps": 60}), NOTHING_SUPPLIED, resume=False
    )  # 60 of its 150 steps
    first, last = ends(Path("runs/numbers"), "reward/mean")
    assert first < 0.2
    assert last > 0.5
