"""Progress of work outside training steps: a bar with the time left, or the name of the current stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from steelyard.text import with_unit
from steelyard.tracking.console import Screen
from steelyard.tracking.figures import duration
from steelyard.tracking.heartbeat import FIRST_SECONDS, Heartbeat

PATIENCE_SECONDS = 2.0
"""How long a stage may take on a terminal before its name is printed."""
Advance = Callable[..., None]
"""Advances a bar by one; an optional argument is shown after the bar."""


@contextmanager
def progress_bar(what: str, total: int, unit: str, *, clock: Callable[[], float] = time.monotonic) -> Iterator[Advance]:
    """Show a progress bar on stderr while the block runs, and yield the function that advances it.

    ``unit`` is the noun for one of the ``total`` items. Without a terminal, it prints a line at the start, and more
    lines if the work takes a long time.
    """
    console = Screen(stderr=True, highlight=False)
    if not console.is_terminal:
        with _counting_in_lines(console, what, total, unit, clock) as advance:
            yield advance
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    ends = (TextColumn("·"), TimeRemainingColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, *ends, console=console, transient=True) as progress:
        bar = progress.add_task(what, total=total, note="")
        yield lambda note="": progress.update(bar, advance=1, note=note)


@contextmanager
def _counting_in_lines(
    console: Screen, what: str, total: int, unit: str, clock: Callable[[], float]
) -> Iterator[Advance]:
    done, newest = 0, ""

    def advance(note: str = "") -> None:
        nonlocal done, newest
        done, newest = done + 1, note

    def report(seconds: float) -> None:
        left = [f"about {duration(seconds * (total - done) / done)} left"] if done else []
        words = [f"{what}: {done}/{with_unit(total, unit)}", f"{duration(seconds)} elapsed", *left]
        words += [newest] if newest else []
        console.print("  ".join(words), markup=False, soft_wrap=True)

    with suppress(OSError):  # stderr may be closed; the work continues
        console.print(f"{what}: {with_unit(total, unit)}", markup=False)
    with _heartbeat(report, clock):
        yield advance


@contextmanager
def stages(
    first: str, *, shown: bool = True, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[str], None]]:
    """Print the current stage to stderr if it takes a long time, and yield the function that starts the next stage.

    Stages are printed as lines, without a spinner, because downloads draw their own bars.
    """
    if not shown:
        yield lambda _: None
        return
    console, named = Screen(stderr=True, highlight=False), first

    def report(seconds: float) -> None:
        console.print(f"{named}  {duration(seconds)} elapsed", markup=False, soft_wrap=True)

    def stage(what: str) -> None:
        nonlocal named
        named = what
        heartbeat.restart()

    with _heartbeat(report, clock, PATIENCE_SECONDS if console.is_terminal else FIRST_SECONDS) as heartbeat:
        yield stage


@contextmanager
def _heartbeat(
    report: Callable[[float], None], clock: Callable[[], float], first: float = FIRST_SECONDS
) -> Iterator[Heartbeat]:
    heartbeat = Heartbeat(report, clock=clock, first=first)
    heartbeat.restart()
    try:
        yield heartbeat
    finally:
        heartbeat.stop()
