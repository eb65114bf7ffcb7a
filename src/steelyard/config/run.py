"""Configuration of the run and of its evaluations, checkpoints and tracking."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from steelyard import defaults
from steelyard.config.base import Section


def _file_name(text: str) -> str:
    if re.fullmatch(r"\w[\w.+-]*", text) is None:
        raise ValueError("must be a valid folder name: letters, digits and _ . + - only, without a leading dot")
    return text


RunName = Annotated[str, AfterValidator(_file_name)]
SuppliedPart = Literal["model", "domain", "tasks", "eval_tasks", "verifier", "constraint", "tools"]


class RunConfig(Section):
    name: RunName = Field(default="run", description="Name of the run; its folder is run.folder/run.name.")
    folder: str = Field(default="runs", description="Folder that contains the runs.", min_length=1)
    seed: int = Field(default=0, description="Seed for all random numbers in the run.", ge=0, lt=2**63)
    steps: int = Field(default=200, description="Number of training steps.", ge=1)
    supplied: tuple[SuppliedPart, ...] = Field(
        default=(),
        strict=False,
        description="Parts passed to steelyard.train as Python objects; set automatically by steelyard.train.",
    )


class EvaluateConfig(Section):
    every: int = Field(
        default=0, description="Steps between evaluations on held-out tasks; 0 disables evaluation.", ge=0
    )
    tasks: int = Field(default=64, description="Number of held-out tasks per evaluation.", ge=1)
    samples: int = Field(default=defaults.EVALUATION_SAMPLES, description="Number of samples per task.", ge=1)
    ks: tuple[int, ...] = Field(
        default=defaults.EVALUATION_KS,
        strict=False,
        description="Values of k for which pass@k is reported.",
        min_length=1,
    )
    temperature: float | None = Field(
        default=None, description="Sampling temperature. Default: sampling.temperature.", gt=0
    )
    max_new_tokens: int | None = Field(
        default=None, description="Maximum tokens per completion. Default: sampling.max_new_tokens.", ge=1
    )


class CheckpointConfig(Section):
    every: int = Field(default=50, description="Steps between checkpoints; 0 saves only after the last step.", ge=0)
    keep_last: int = Field(default=defaults.KEEP_LAST, description="Number of recent checkpoints to keep.", ge=1)
    best_metric: str | None = Field(
        default=None,
        description="Metric that selects the best checkpoint, which is also kept. Default: eval/success if "
        "evaluation is enabled, otherwise reward/mean.",
    )
    best_mode: Literal["max", "min"] = Field(
        default=defaults.BEST_MODE, description="Whether higher (max) or lower (min) values of best_metric are better."
    )


class TrackingConfig(Section):
    console: bool = Field(default=True, description="Show a live display in the terminal.")
    tensorboard: bool = Field(default=False, description="Log to TensorBoard (requires the tensorboard extra).")
    wandb: bool = Field(
        default=False, description="Log to Weights & Biases (requires the wandb extra; supports WANDB_MODE=offline)."
    )
    wandb_project: str = Field(
        default=defaults.WANDB_PROJECT, description="Name of the Weights & Biases project.", min_length=1
    )
    samples_every: int = Field(
        default=10,
        description="Show the best, median and worst samples at step 1 and then at this interval in steps; 0: never.",
        ge=0,
    )
