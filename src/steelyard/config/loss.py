"""The objective: surrogate, aggregation, KL and entropy; and the optimiser that follows it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from steelyard import defaults
from steelyard.config.base import Coefficient, ScheduleConfig, Section

Surrogate = Literal["ppo_clip", "gspo", "cispo", "reinforce"]

PRETRAINED_LR = 1e-5
SCRATCH_LR = 2e-3
"""Default learning rates: of a pretrained model, and of a small one with random weights (``model.scratch``)."""


def _empty(side: Literal[0, 1]) -> str:
    """What an empty bound of the clip range means."""
    ranges = defaults.CLIP_RANGES
    return f"{ranges['ppo_clip'][side]:g}, for gspo {ranges['gspo'][side]:g}"


class AdaptiveKlConfig(Section):
    """Steer the coefficient so that KL stays near a target (Ziegler et al., arXiv 1909.08593)."""

    target: float = Field(description="KL per decision to hold.", gt=0)
    horizon: float | None = Field(
        default=None,
        description="Samples over which the coefficient changes by a fifth at most; empty: those of "
        f"{defaults.KL_HORIZON_STEPS} steps, which lets it change a hundredfold in 250 steps.",
        gt=0,
    )


class KlConfig(Section):
    coefficient: Coefficient = Field(
        default=ScheduleConfig(start=0.0),
        description="Weight of the KL to the reference, a number or a schedule table.",
    )
    estimator: Literal["k1", "k2", "k3", "k3_unbiased", "exact"] = Field(
        default="k3_unbiased",
        description="k3 follows the forward KL; k2, k3_unbiased and exact the reverse; k1 only in the reward.",
    )
    placement: Literal["loss", "reward"] = Field(
        default="loss", description="Added to the loss or taken off the reward."
    )
    adaptive: AdaptiveKlConfig | None = Field(default=None, description="Let the coefficient follow a target.")

    @property
    def active(self) -> bool:
        """Whether anything needs a reference model."""
        return self.coefficient.ever_positive


class EntropyConfig(Section):
    coefficient: Coefficient = Field(
        default=ScheduleConfig(start=0.0), description="Weight of the entropy bonus, a number or a schedule table."
    )


class LossConfig(Section):
    surrogate: Surrogate = Field(default="ppo_clip", description="What is maximised in place of the expected reward.")
    clip_low: float | None = Field(
        default=None, description=f"The ratio is clipped below at 1 - clip_low; empty: {_empty(0)}.", gt=0, lt=1
    )
    clip_high: float | None = Field(
        default=None,
        description=f"The ratio is clipped above at 1 + clip_high; empty: {_empty(1)}; DAPO's clip-higher: 0.28.",
        gt=0,
    )
    dual_clip: float | None = Field(
        default=None, description="Bound for negative advantages, such as 3 (ppo_clip).", gt=1
    )
    ratio_cap: float | None = Field(
        default=None, description=f"Cap of the ratio (cispo); empty: {defaults.RATIO_CAP:g}.", gt=0
    )
    aggregation: Literal["sequence_mean", "token_mean", "constant"] = Field(
        default=defaults.AGGREGATION,
        description="Mean per sample then over samples, over all tokens, or over a constant length.",
    )
    constant_length: int | None = Field(
        default=None, description="Length for aggregation constant; empty: sampling.max_new_tokens.", ge=1
    )
    importance_cap: float | None = Field(
        default=None,
        description="Correct for sampler and learner differing, old/behaviour capped here (about 2); 0: no correction; "
        f"empty: {defaults.IMPORTANCE_CAP:g} with sampling.engine = vllm or sampling.staleness, else none.",
        ge=0,
    )
    kl: KlConfig = Field(default=KlConfig(), description="KL to the reference.")
    entropy: EntropyConfig = Field(default=EntropyConfig(), description="Entropy bonus.")

    def surrogate_options(self) -> dict[str, float | None]:
        """The keyword arguments of the chosen surrogate, its own defaults filled in."""
        if self.surrogate == "reinforce":
            return {}
        if self.surrogate == "cispo":
            return {"ratio_cap": defaults.RATIO_CAP if self.ratio_cap is None else self.ratio_cap}
        low, high = defaults.CLIP_RANGES[self.surrogate]
        options: dict[str, float | None] = {
            "clip_low": low if self.clip_low is None else self.clip_low,
            "clip_high": high if self.clip_high is None else self.clip_high,
        }
        return options | ({"dual_clip": self.dual_clip} if self.surrogate == "ppo_clip" else {})


class OptimiserConfig(Section):
    name: Literal["adamw", "adamw_fused", "adamw_8bit"] = Field(
        default="adamw", description="AdamW, its fused kernel, or with 8-bit state (extra bitsandbytes)."
    )
    rounding: Literal["stochastic", "nearest", "master"] = Field(
        default=defaults.ROUNDING,
        description="Updates of bfloat16 weights: rounded stochastically (right on average), to nearest (most updates "
        "at a small learning rate are lost), or made on float32 master weights (more memory).",
    )
    lr: float = Field(
        default=PRETRAINED_LR, description=f"Learning rate; with model.scratch the default is {SCRATCH_LR:g}.", gt=0
    )
    betas: tuple[float, float] = Field(default=defaults.BETAS, strict=False, description="Decay of the two moments.")
    eps: float = Field(default=defaults.EPS, description="Added to the root of the second moment.", gt=0)
    weight_decay: float = Field(default=defaults.WEIGHT_DECAY, description="Decoupled weight decay.", ge=0)
    schedule: Literal["constant", "linear", "cosine"] = Field(
        default="constant", description="Learning rate over the run."
    )
    warmup_steps: int = Field(default=0, description="Steps over which the learning rate rises from 0.", ge=0)
    min_lr_ratio: float = Field(default=0.0, description="Where linear and cosine end, as a share of lr.", ge=0, le=1)
    grad_clip: float = Field(default=defaults.GRAD_CLIP, description="Largest gradient norm; 0: no clipping.", ge=0)
    epochs: int = Field(default=defaults.EPOCHS, description="Passes over each rollout.", ge=1)
    minibatches: int = Field(default=defaults.MINIBATCHES, description="Optimiser steps per pass.", ge=1)
    microbatch_tokens: int | None = Field(
        default=None,
        description="Tokens per forward and backward, padding included; empty: as many as suit the device's memory.",
        ge=1,
    )
    max_skipped: int = Field(
        default=defaults.MAX_SKIPPED, description="Non-finite steps in a row after which the run stops.", ge=1
    )
