"""The run itself, and what is evaluated, saved and shown while it goes."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from steelyard import defaults
from steelyard.config.base import Section


def _file_name(text: str) -> str:
    if re.fullmatch(r"\w[\w.+-]*", text) is None:
        raise ValueError("names a folder: letters, digits and _ . + - only, and no leading dot")
    return text


RunName = Annotated[str, AfterValidator(_file_name)]
Supplied = Literal["model", "domain", "tasks", "eval_tasks", "verifier", "constraint"]


class RunConfig(Section):
    name: RunName = Field(default="run", description="Name of the run; its folder is run.folder/run.name.")
    folder: str = Field(default="runs", description="Folder that holds the runs.", min_length=1)
    seed: int = Field(default=0, description="Keys every random draw of the run.", ge=0, lt=2**63)
    steps: int = Field(default=200, description="Training steps.", ge=1)
    supplied: tuple[Supplied, ...] = Field(
        default=(),
        strict=False,
        description="Parts that steelyard.train was handed as Python objects; it sets this key itself.",
    )


class EvaluateConfig(Section):
    every: int = Field(default=0, description="Steps between evaluations on held-out tasks; 0: none.", ge=0)
    tasks: int = Field(default=64, description="Held-out tasks per evaluation.", ge=1)
    samples: int = Field(default=defaults.EVALUATION_SAMPLES, description="Samples per task.", ge=1)
    ks: tuple[int, ...] = Field(
        default=defaults.EVALUATION_KS, strict=False, description="The k of each pass@k reported.", min_length=1
    )
    temperature: float | None = Field(default=None, description="Temperature; empty: sampling.temperature.", gt=0)
    max_new_tokens: int | None = Field(default=None, description="Length limit; empty: sampling.max_new_tokens.", ge=1)


class CheckpointConfig(Section):
    every: int = Field(default=50, description="Steps between checkpoints; 0: only the last step.", ge=0)
    keep_last: int = Field(default=defaults.KEEP_LAST, description="How many of the newest checkpoints stay.", ge=1)
    best_metric: str | None = Field(
        default=None,
        description="Metric whose best checkpoint stays too; empty: eval/success with evaluation on, else reward/mean.",
    )
    best_mode: Literal["max", "min"] = Field(
        default=defaults.BEST_MODE, description="Whether the metric is better high or low."
    )


class TrackingConfig(Section):
    console: bool = Field(default=True, description="Live display in the terminal.")
    tensorboard: bool = Field(default=False, description="Write TensorBoard events (extra tensorboard).")
    wandb: bool = Field(
        default=False, description="Write a Weights & Biases run (extra wandb; WANDB_MODE=offline works)."
    )
    wandb_project: str = Field(default=defaults.WANDB_PROJECT, description="Weights & Biases project.", min_length=1)
    samples_every: int = Field(
        default=10,
        description="Steps between showing the best, median and worst sample, those of step 1 included; 0: never.",
        ge=0,
    )
