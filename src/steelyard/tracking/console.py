"""Console output of a run: a live panel on a terminal or in a notebook, plain lines elsewhere."""

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
from steelyard.tracking.log_lines import phase_line, step_line
from steelyard.tracking.panel import TrainingPanel
from steelyard.tracking.progress import Progress
from steelyard.tracking.shown import ShownSample


class Screen(Console):
    """A rich console that raises ``BrokenPipeError`` when the pipe is closed, instead of exiting the process."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class ConsoleTracker:
    """Shows metrics and progress on the console.

    If the output is not a terminal (a pipe, a log file), it prints one line per step without control characters, at
    most one every ``plain_seconds``. The first step, the last step and evaluations are always printed. A phase that
    takes longer than 30 seconds gets a line too.
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
        self._heartbeat = Heartbeat(self._print_phase, clock=clock)

    def rewind(self, step: int) -> None:
        """Start the clock after this step and show the panel."""
        self._progress.start(step)
        self._start()

    def log(self, step: int, metrics: Mapping[str, Metric]) -> None:
        self._start()
        self._progress.update(step, metrics)
        if self._live is None and self._due(metrics):
            self._printed = self._clock()
            self._print(step_line(self._progress))

    def samples(self, step: int, shown: Sequence[ShownSample]) -> None:
        """Print samples above the panel, clipped to a few lines each."""
        self._start()
        self.console.print(SampleCards(step, shown))

    def progress(self, activity: Activity) -> None:
        """Show an activity at the next refresh of the panel; a log mentions it only if it takes a long time."""
        changed = self._progress.set_activity(activity)
        self._start()
        if changed and self._live is None:
            self._heartbeat.restart()

    def close(self) -> None:
        """Leave the final panel on the screen, or remove it if the run never logged a metric."""
        self._heartbeat.stop()
        self._progress.set_activity(None)
        if self._live is not None:
            self._live.transient = not self._progress.measured
            self._live.stop()
            self._live = None
        if self._restore_keys is not None:
            self._restore_keys()
            self._restore_keys = None

    def _print_phase(self, seconds: float) -> None:
        if (line := phase_line(self._progress)) is not None:
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
    """Make an output stream print ``?`` instead of raising an error for characters that its encoding lacks."""
    reconfigure = getattr(console.file, "reconfigure", None)
    if console.options.ascii_only and reconfigure is not None:
        reconfigure(errors="replace")


def _can_redraw(console: Console) -> bool:
    if console.is_jupyter:
        return find_spec("ipywidgets") is not None
    return console.is_interactive
