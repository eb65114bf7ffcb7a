"""The live panel of a slow run changes every few seconds, fits its terminal and acknowledges Ctrl-C.

A real run with a slow verifier draws on 80- and 140-column terminals, with synchronous and asynchronous steps. Every
screen is checked: no line is wrapped, no figure is truncated, and the live panel never loses a row. A full run writes
screenshots to ``docs/images``.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass, field

from rich.progress import Progress

from benchmarks.experience.terminal import Terminal
from benchmarks.framework.report import ROOT
from benchmarks.framework.result import Cell, Figure, Result

CASES = {"80 columns": (80, 0), "140 columns": (140, 0), "80 columns, asynchronous": (80, 1)}
STEPS = 100
INTERRUPT_AFTER = 4
"""Steps before the interrupt; they include two evaluations and checkpoints."""
PATIENCE = 600.0
CTRL_C = "\x03"
STILL_SECONDS, ACKNOWLEDGED_SECONDS = 3.0, 2.0
PHASE = re.compile(r"│ now +(evaluating: \w+|[a-z]+)(?: +(\d+)/(\d+))?")
ACKNOWLEDGEMENT, FAREWELL = "finishing this step", "stopped after step"
IMAGES = ROOT / "docs" / "images"
KEPT = {"80 columns": ("verifying", "evaluating: verifying", "learning"), "140 columns": ("verifying", "learning")}
"""Phases whose screenshots are stored."""


@dataclass
class PanelObservations:
    """Observations from a run's screens."""

    still: float = 0.0
    """The longest time without a change between the first and last panel, in seconds."""
    acknowledged: float = float("nan")
    truncated: set[str] = field(default_factory=set[str])
    lost_rows: int = 0
    wrapped: list[str] = field(default_factory=list[str])
    resume_shown: bool = False
    """Whether the run printed instructions for resuming."""
    screens: int = 0
    pictures: dict[str, str] = field(default_factory=dict[str, str])
    """The newest screenshot of each phase; for phases with a count, one taken at no more than 60%."""


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version uses 80 columns only and stores no screenshots."""
    cases = {name: case for name, case in CASES.items() if not quick or name == "80 columns"}
    task = progress.add_task("panel", total=len(cases))
    found: dict[str, PanelObservations] = {}
    for name, (columns, staleness) in cases.items():
        progress.update(task, description=name)
        with tempfile.TemporaryDirectory() as folder:
            found[name] = watch(columns, staleness, folder)
        progress.advance(task)
    if not quick:
        keep_pictures(found)
    wrong = [line for seen in found.values() for line in (*seen.wrapped, *seen.truncated)]
    note = "Wrapped or truncated: " + "; ".join(wrong) if wrong else ""
    return Result("panel", figures(list(found.values())), [detail(name, seen) for name, seen in found.items()], note)


def figures(found: list[PanelObservations]) -> tuple[Figure, ...]:
    return (
        Figure("longest time without a change", max(seen.still for seen in found), "<=", STILL_SECONDS, "s"),
        Figure("Ctrl-C acknowledged", max(seen.acknowledged for seen in found), "<=", ACKNOWLEDGED_SECONDS, "s"),
        Figure("wrapped lines", sum(len(seen.wrapped) for seen in found), "<=", 0),
        Figure("rows with truncated figures", sum(len(seen.truncated) for seen in found), "<=", 0),
        Figure("rows lost while live", sum(seen.lost_rows for seen in found), "<=", 0),
        Figure("fewest phases seen", min(len(seen.pictures) for seen in found), ">=", 4),
        Figure("runs that printed how to resume", sum(seen.resume_shown for seen in found), ">=", len(found)),
    )


def detail(name: str, seen: PanelObservations) -> dict[str, Cell]:
    return {
        "terminal": name,
        "screens": seen.screens,
        "longest pause s": seen.still,
        "acknowledged s": seen.acknowledged,
        "phases seen": ", ".join(sorted(seen.pictures)),
    }


def watch(columns: int, staleness: int, folder: str) -> PanelObservations:
    """Let a run draw for some steps, interrupt it once, and check every screen until it ends."""
    command = [sys.executable, "-m", "benchmarks.experience.slow_run", folder, str(STEPS), str(staleness)]
    terminal = Terminal(command, columns, os.environ | {"OMP_NUM_THREADS": "1"})
    seen = PanelObservations()
    deadline = time.monotonic() + PATIENCE
    interrupted = changed = None
    before: list[str] = []
    try:
        while terminal.read(0.05):
            now = time.monotonic()
            if now > deadline:
                raise RuntimeError("\n".join(["the run did not end; its screen:", *before]))
            screen = terminal.screen.text()
            if screen == before:
                continue
            if changed is not None and panel_of(screen):
                seen.still = max(seen.still, now - changed)
            changed = now if panel_of(screen) else None
            check_screen(screen, before, seen)
            before, text = screen, "\n".join(screen)
            phase = PHASE.search("\n".join(panel_of(screen)))
            if phase is not None and int(phase[2] or 0) <= 0.6 * int(phase[3] or 1):
                seen.pictures[phase[1]] = terminal.screen.picture(f"{columns} columns: {phase[1]}")
            if interrupted is None and re.search(rf"step {INTERRUPT_AFTER}/", text):
                interrupted = now
                terminal.press(CTRL_C)
            if interrupted is not None and ACKNOWLEDGEMENT in text and seen.acknowledged != seen.acknowledged:
                seen.acknowledged = now - interrupted
    finally:
        terminal.close()
    if not seen.pictures:
        raise RuntimeError("\n".join(["the run showed no panel; its screen:", *before]))
    seen.wrapped, seen.resume_shown = terminal.screen.wrapped, FAREWELL in "\n".join(before)
    return seen


def check_screen(screen: list[str], before: list[str], seen: PanelObservations) -> None:
    """Record a screen's defects."""
    seen.screens += 1
    panel, last = panel_of(screen), panel_of(before)
    seen.truncated |= {row for row in panel if "…" in row}
    if panel and any("│ now" in row for row in panel):  # the final panel shows no activity
        seen.lost_rows += max(0, len(last) - len(panel))


def panel_of(screen: list[str]) -> list[str]:
    """Return the rows of the newest complete panel."""
    tops = [number for number, row in enumerate(screen) if row.startswith("╭")]
    rows = screen[tops[-1] :] if tops else []
    ends = [number for number, row in enumerate(rows) if row.startswith("╰")]
    return rows[: ends[0] + 1] if ends else []


def keep_pictures(found: dict[str, PanelObservations]) -> None:
    for name, phases in KEPT.items():
        for phase in phases:
            words = "-".join(re.findall(r"[a-z0-9]+", f"{name} {phase}"))
            (IMAGES / f"panel-{words}.svg").write_text(found[name].pictures[phase], encoding="utf-8")
