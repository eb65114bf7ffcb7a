"""Progress of work that is not a training step: a bar with the time left, or the name of what is being loaded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from steelyard.tracking.console import Screen
from steelyard.tracking.figures import duration
from steelyard.tracking.heartbeat import FIRST_SECONDS, Heartbeat

PATIENCE_SECONDS = 2.0
"""How long somebody at a terminal looks at nothing."""
Advance = Callable[..., None]
"""Moves a bar on by one; called with a text, it also says that behind the bar."""


@contextmanager
def counting(what: str, total: int, *, clock: Callable[[], float] = time.monotonic) -> Iterator[Advance]:
    """A bar on stderr while the block runs; gives the function that moves it on. If there is no terminal, a line at the
    start and another when it takes long.
    """
    console = Screen(stderr=True, highlight=False)
    if not console.is_terminal:
        with _counting_in_lines(console, what, total, clock) as advance:
            yield advance
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    ends = (TextColumn("·"), TimeRemainingColumn(), TextColumn("{task.fields[said]}"))
    with Progress(*columns, *ends, console=console, transient=True) as progress:
        bar = progress.add_task(what, total=total, said="")
        yield lambda said="": progress.update(bar, advance=1, said=said)


@contextmanager
def _counting_in_lines(console: Screen, what: str, total: int, clock: Callable[[], float]) -> Iterator[Advance]:
    done, newest = 0, ""

    def advance(said: str = "") -> None:
        nonlocal done, newest
        done, newest = done + 1, said

    def say(seconds: float) -> None:
        left = [f"about {duration(seconds * (total - done) / done)} left"] if done else []
        words = [f"{what} {done}/{total}", f"{duration(seconds)} so far", *left, *([newest] if newest else [])]
        console.print("  ".join(words), markup=False, soft_wrap=True)

    with suppress(OSError):  # nobody reads it; the work matters more
        console.print(f"{what} ({total})", markup=False)
    with _beating(say, clock):
        yield advance


@contextmanager
def stages(
    first: str, *, shown: bool = True, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[str], None]]:
    """Lines on stderr that name what is being loaded or started when it takes long; gives the function that begins the
    next stage. Lines and not a spinner, since downloads draw bars of their own.
    """
    if not shown:
        yield lambda _: None
        return
    console, named = Screen(stderr=True, highlight=False), first

    def say(seconds: float) -> None:
        console.print(f"{named}  {duration(seconds)} so far", markup=False, soft_wrap=True)

    def stage(what: str) -> None:
        nonlocal named
        named = what
        heartbeat.restart()

    with _beating(say, clock, PATIENCE_SECONDS if console.is_terminal else FIRST_SECONDS) as heartbeat:
        yield stage


@contextmanager
def _beating(
    say: Callable[[float], None], clock: Callable[[], float], first: float = FIRST_SECONDS
) -> Iterator[Heartbeat]:
    heartbeat = Heartbeat(say, clock=clock, first=first)
    heartbeat.restart()
    try:
        yield heartbeat
    finally:
        heartbeat.stop()
