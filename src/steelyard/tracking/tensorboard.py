"""TensorBoard (requires the ``tensorboard`` extra): scalars, histograms and selected samples as event files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from steelyard.errors import MissingExtraError
from steelyard.tracking.artifacts import markdown
from steelyard.tracking.base import Histogram, Metric
from steelyard.tracking.shown import ShownSample


class TensorBoardTracker:
    """Writes event files and flushes them after every call, so that killing the run loses no events of a saved step."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtraError("logging to TensorBoard", "tensorboard") from error
        self.folder = Path(folder)
        self._open = SummaryWriter
        self._writer: Any = None

    def log(self, step: int, metrics: Mapping[str, Metric]) -> None:
        writer = self._writing()
        for name, metric in metrics.items():
            if isinstance(metric, Histogram):
                _add_histogram(writer, name, metric, step)
            else:
                writer.add_scalar(name, float(metric), step)
        writer.flush()

    def samples(self, step: int, shown: Sequence[ShownSample]) -> None:
        writer = self._writing()
        writer.add_text("samples", markdown(step, shown), step)
        writer.flush()

    def rewind(self, step: int) -> None:
        """Start a new event file that makes TensorBoard discard everything logged after ``step``."""
        self.close()
        if self.folder.is_dir():
            self._writer = self._open(str(self.folder), purge_step=step + 1)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _writing(self) -> Any:
        if self._writer is None:
            self._writer = self._open(str(self.folder))
        return self._writer


def _add_histogram(writer: Any, name: str, histogram: Histogram, step: int) -> None:
    """Add the bin counts; the sums that TensorBoard needs are computed from the centres of the bins."""
    edges, counts = histogram.edges, histogram.counts
    middles = [low / 2 + high / 2 for low, high in pairwise(edges)]
    writer.add_histogram_raw(
        name,
        min=edges[0],
        max=edges[-1],
        num=sum(counts),
        sum=sum(c * m for c, m in zip(counts, middles, strict=True)),
        sum_squares=sum(c * m * m for c, m in zip(counts, middles, strict=True)),
        bucket_limits=list(edges[1:]),
        bucket_counts=list(counts),
        global_step=step,
    )
