"""Training on the screen: a live panel on a terminal or in a notebook, plain lines anywhere else."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

from rich.console import Console
from rich.live import Live

from steelyard.tracking.activity import Activity
from steelyard.tracking.base import Metric
from steelyard.tracking.cards import SampleCards
from steelyard.tracking.heartbeat import Heartbeat
from steelyard.tracking.keyboard import hide_control_keys
from steelyard.tracking.panel import TrainingPanel
from steelyard.tracking.plain import plain_activity, plain_line
from steelyard.tracking.progress import Progress
from steelyard.tracking.shown import ShownSample


class Screen(Console):
    """Standard output, or a console on stderr. A reader that has closed the pipe is an error like any other, which the
    caller handles; rich would end the process.
    """

    def on_broken_pipe(self) -> None:
        self.quiet = True
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class ConsoleTracker:
    """Shows the run's metrics by their plain names.

    Where the output is not a terminal (a pipe, a log file) it prints one line without control characters per step, at
    most one every ``plain_seconds``; the first, the last and those with an evaluation are never left out. A phase that
    takes longer than half a minute gets a line too.
    """

    def __init__(
        self,
        total_steps: int,
        *,
        title: str = "",
        console: Console | None = None,
        plain_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console = console or Screen()
        _never_fail_on_encoding(self.console)
        self._progress = Progress(total_steps, clock)
        self._panel = TrainingPanel(self._progress, title)
        self._clock = clock
        self._plain_seconds = plain_seconds
        self._printed: float | None = None
        self._redraws = _can_redraw(self.console)
        self._live: Live | None = None
        self._restore_keys: Callable[[], None] | None = None
        self._heartbeat = Heartbeat(self._say_activity, clock=clock)

    def rewind(self, step: int) -> None:
        """Training is about to begin after this step: start the clock and show the panel."""
        self._progress.begin(step)
        self._start()

    def log(self, step: int, metrics: Mapping[str, Metric]) -> None:
        self._start()
        self._progress.update(step, metrics)
        if self._live is None and self._due(metrics):
            self._printed = self._clock()
            self._print(plain_line(self._progress))

    def samples(self, step: int, shown: Sequence[ShownSample]) -> None:
        """Print them above the panel, clipped to a few lines each."""
        self._start()
        self.console.print(SampleCards(step, shown))

    def progress(self, activity: Activity) -> None:
        """The panel shows it when it is next drawn; a log only if it takes long."""
        changed = self._progress.doing(activity)
        self._start()
        if changed and self._live is None:
            self._heartbeat.restart()

    def close(self) -> None:
        """Show the last state and leave it standing; nothing of a run that never measured anything."""
        self._heartbeat.stop()
        self._progress.doing(None)
        if self._live is not None:
            self._live.transient = not self._progress.measured
            self._live.stop()
            self._live = None
        if self._restore_keys is not None:
            self._restore_keys()
            self._restore_keys = None

    def _say_activity(self, seconds: float) -> None:
        if (line := plain_activity(self._progress)) is not None:
            self._print(line)

    def _print(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _start(self) -> None:
        if self._live is None and self._redraws:
            self._restore_keys = hide_control_keys(self.console.file)
            self._live = Live(self._panel, console=self.console, refresh_per_second=4)
            self._live.start(refresh=True)

    def _due(self, metrics: Mapping[str, Metric]) -> bool:
        if self._printed is None or self._progress.step >= self._progress.total_steps:
            return True
        if any(name.startswith("eval/") for name in metrics):
            return True
        return self._clock() - self._printed >= self._plain_seconds


def _never_fail_on_encoding(console: Console) -> None:
    """An output that cannot say every sign (an old code page) shows ``?`` for it; a run must not die of that."""
    reconfigure = getattr(console.file, "reconfigure", None)
    if console.options.ascii_only and reconfigure is not None:
        reconfigure(errors="replace")


def _can_redraw(console: Console) -> bool:
    if console.is_jupyter:
        return find_spec("ipywidgets") is not None
    return console.is_interactive
