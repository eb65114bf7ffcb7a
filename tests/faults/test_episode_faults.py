"""Episodes with misbehaving sessions and killed workers: every episode has a typed outcome, and no reply changes."""

from __future__ import annotations

from rich.progress import Progress

from benchmarks.episodes.episodes_faults import faults
from benchmarks.framework.result import Cell
from benchmarks.verification.misbehaving import PATIENT_LIMITS


def test_every_episode_ends_once_and_as_expected() -> None:
    rows: list[dict[str, Cell]] = []
    kinds = ("raise", "string", "none", "segfault", "exit", "nan", "daemon", "close")
    figures = faults(40, Progress(disable=True), rows, limits=PATIENT_LIMITS, share=0.2, kinds=kinds)
    assert [str(figure) for figure in figures if figure.comparison == "<=" and not figure.ok] == []
    assert len({row["outcome"] for row in rows}) >= 4, "sessions have misbehaved"
