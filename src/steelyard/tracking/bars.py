"""A bar with the time left, for work that is counted and is no training step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from steelyard.tracking.console import Screen

Advance = Callable[..., None]
"""Moves a bar on by one; called with a text, it also says that behind the bar."""


@contextmanager
def counting(what: str, total: int) -> Iterator[Advance]:
    """A bar on stderr while the block runs; gives the function that moves it on. A single line if there is no
    terminal.
    """
    console = Screen(stderr=True, highlight=False)
    if not console.is_terminal:
        with suppress(OSError):  # nobody reads it; the work matters more
            console.print(f"{what} ({total})", markup=False)
        yield lambda *_: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    ends = (TextColumn("·"), TimeRemainingColumn(), TextColumn("{task.fields[said]}"))
    with Progress(*columns, *ends, console=console, transient=True) as progress:
        bar = progress.add_task(what, total=total, said="")
        yield lambda said="": progress.update(bar, advance=1, said=said)
