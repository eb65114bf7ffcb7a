"""The live display of a training run (placeholder of final shape; rendering follows)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console

from steelyard.tracking.base import Metric
from steelyard.tracking.shown import ShownSample


class ConsoleTracker:
    """Shows the run on a terminal, or as plain lines where there is none."""

    def __init__(
        self,
        total_steps: int,
        *,
        title: str = "",
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total_steps = total_steps
        self.title = title
        self.console = console or Console()
        self.clock = clock

    def log(self, step: int, metrics: Mapping[str, Metric]) -> None:
        self.console.print(f"step {step}/{self.total_steps} reward {metrics.get('reward/mean')}")

    def samples(self, step: int, shown: Sequence[ShownSample]) -> None: ...

    def rewind(self, step: int) -> None: ...

    def close(self) -> None: ...
