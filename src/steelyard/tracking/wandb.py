"""Weights & Biases (requires the ``wandb`` extra), online or offline; a resumed run continues under the same id.

The run's id is stored in the run folder. Metrics are plotted over a custom ``step`` metric, because the service's own
counter cannot go back: steps that a resumed run logs again get the same x coordinate. The service keeps both points;
after an exact resume they are equal, except for ``time/*``.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from steelyard.defaults import WANDB_PROJECT
from steelyard.errors import MissingExtraError
from steelyard.text import one_line, printable
from steelyard.tracking.artifacts import verdict_line
from steelyard.tracking.base import Histogram, Metric
from steelyard.tracking.shown import ShownSample, prompt_text
from steelyard.tracking.transcript import sample_text

_ID = "wandb-id.txt"
_COLUMNS = ("label", "task", "prompt", "text", "reward", "verdict")


class WandbTracker:
    """Logs to Weights & Biases.

    ``mode="offline"`` needs neither network nor login; ``wandb sync`` uploads the folder later. Without a mode,
    ``WANDB_MODE`` decides; the default is online.
    """

    def __init__(
        self,
        folder: Path,
        *,
        project: str = WANDB_PROJECT,
        name: str | None = None,
        mode: Literal["online", "offline"] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            import wandb
        except ImportError as error:
            raise MissingExtraError("logging to Weights & Biases", "wandb") from error
        self._wandb = wandb
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.run_id = _stored_id(folder / _ID)
        self._run = wandb.init(
            project=project,
            name=name,
            id=self.run_id,
            dir=str(folder),
            mode=mode,
            config=dict(config or {}),
            allow_val_change=True,  # a resumed run may have more steps
            resume="allow",
            settings=wandb.Settings(silent=True, console="off"),
        )
        self._run.define_metric("step", hidden=True)
        self._run.define_metric("*", step_metric="step")

    def log(self, step: int, metrics: Mapping[str, Metric]) -> None:
        self._run.log({"step": step, **{name: self._value(metric) for name, metric in metrics.items()}})

    def samples(self, step: int, shown: Sequence[ShownSample]) -> None:
        table = self._wandb.Table(columns=list(_COLUMNS), data=[_row(sample) for sample in shown])
        self._run.log({"step": step, "samples": table})

    def rewind(self, step: int) -> None:
        """Do nothing: steps that are logged again have the same ``step`` metric."""

    def close(self) -> None:
        self._run.finish()

    def _value(self, metric: Metric) -> Any:
        if isinstance(metric, Histogram):
            return self._wandb.Histogram(np_histogram=(np.array(metric.counts), np.array(metric.edges)))
        return metric


def _row(sample: ShownSample) -> list[Any]:
    prompt, text = printable(prompt_text(sample.prompt)), printable(sample_text(sample))
    return [sample.label, one_line(sample.task_id), prompt, text, sample.verdict.reward, verdict_line(sample.verdict)]


def _stored_id(path: Path) -> str:
    if path.exists():
        return path.read_text(encoding="utf-8").strip()
    run_id = uuid.uuid4().hex[:8]
    path.write_text(run_id + "\n", encoding="utf-8")
    return run_id
