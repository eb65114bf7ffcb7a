"""Configuration of the objective (surrogate, aggregation, KL, entropy) and the optimiser."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from steelyard import defaults
from steelyard.config.base import Coefficient, ScheduleConfig, Section

Surrogate = Literal["ppo_clip", "gspo", "cispo", "reinforce"]

PRETRAINED_LR = 1e-5
SCRATCH_LR = 2e-3
"""Default learning rates for pretrained models and for models trained from scratch (``model.scratch``)."""


def _default_clip(side: Literal[0, 1]) -> str:
    """Describe the default lower (0) or upper (1) bound of the clip range."""
    ranges = defaults.CLIP_RANGES
    return f"{ranges['ppo_clip'][side]:g}, for gspo {ranges['gspo'][side]:g}"


class AdaptiveKlConfig(Section):
    """Adapt the coefficient so that the KL stays near a target (Ziegler et al., arXiv 1909.08593)."""

    target: float = Field(description="Target KL per decision.", gt=0)
    horizon: float | None = Field(
        default=None,
        description="Number of samples over which the coefficient changes by at most a fifth. Default: the samples of "
        f"{defaults.KL_HORIZON_STEPS} steps; the coefficient can then change a hundredfold in 250 steps.",
        gt=0,
    )


class KlConfig(Section):
    coefficient: Coefficient = Field(
        default=ScheduleConfig(start=0.0),
        description="Weight of the KL to the reference: a number or a schedule table.",
    )
    estimator: Literal["k1", "k2", "k3", "k3_unbiased", "exact"] = Field(
        default="k3_unbiased",
        description="KL estimator. k3 gives the gradient of the forward KL; k2, k3_unbiased and exact give that of "
        "the reverse KL; k1 can only be used in the reward.",
    )
    placement: Literal["loss", "reward"] = Field(
        default="loss", description="Add the KL to the loss, or subtract it from the reward."
    )
    adaptive: AdaptiveKlConfig | None = Field(
        default=None, description="Adapt the coefficient to keep the KL near a target."
    )

    @property
    def active(self) -> bool:
        """Whether the coefficient is ever positive, so that a reference model is needed."""
        return self.coefficient.ever_positive


class EntropyConfig(Section):
    coefficient: Coefficient = Field(
        default=ScheduleConfig(start=0.0), description="Weight of the entropy bonus: a number or a schedule table."
    )


class LossConfig(Section):
    surrogate: Surrogate = Field(default="ppo_clip", description="Surrogate objective to maximise.")
    clip_low: float | None = Field(
        default=None, description=f"Clip the ratio below at 1 - clip_low. Default: {_default_clip(0)}.", gt=0, lt=1
    )
    clip_high: float | None = Field(
        default=None,
        description=f"Clip the ratio above at 1 + clip_high. Default: {_default_clip(1)}; DAPO's clip-higher is 0.28.",
        gt=0,
    )
    dual_clip: float | None = Field(
        default=None, description="Upper bound on the ratio for negative advantages, such as 3 (ppo_clip only).", gt=1
    )
    ratio_cap: float | None = Field(
        default=None, description=f"Cap on the ratio (cispo only). Default: {defaults.RATIO_CAP:g}.", gt=0
    )
    aggregation: Literal["sequence_mean", "token_mean", "constant"] = Field(
        default=defaults.AGGREGATION,
        description="How the losses of tokens are combined: averaged per sample and then over samples, averaged over "
        "all tokens, or divided by a constant length.",
    )
    constant_length: int | None = Field(
        default=None, description="Divisor for aggregation = constant. Default: sampling.max_new_tokens.", ge=1
    )
    importance_cap: float | None = Field(
        default=None,
        description="Correct for differences between sampler and learner with the ratio of old to behaviour "
        f"probability, capped at this value; 0 disables the correction. Default: {defaults.IMPORTANCE_CAP:g} with "
        "sampling.engine = vllm or sampling.staleness, otherwise 0.",
        ge=0,
    )
    kl: KlConfig = Field(default=KlConfig(), description="KL penalty to the reference model.")
    entropy: EntropyConfig = Field(default=EntropyConfig(), description="Entropy bonus.")

    def surrogate_options(self) -> dict[str, float | None]:
        """Return the keyword arguments of the chosen surrogate, with defaults filled in."""
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
        default="adamw",
        description="AdamW, AdamW with a fused kernel, or 8-bit AdamW (requires the bitsandbytes extra).",
    )
    rounding: Literal["stochastic", "nearest", "master"] = Field(
        default=defaults.ROUNDING,
        description="How bfloat16 weights are updated: with stochastic rounding (unbiased), rounding to nearest (loses "
        "most updates at small learning rates), or float32 master weights (uses more memory).",
    )
    lr: float = Field(
        default=PRETRAINED_LR, description=f"Learning rate; the default with model.scratch is {SCRATCH_LR:g}.", gt=0
    )
    betas: tuple[float, float] = Field(
        default=defaults.BETAS, strict=False, description="Decay rates of the first and second moments."
    )
    eps: float = Field(
        default=defaults.EPS, description="Constant added to the square root of the second moment.", gt=0
    )
    weight_decay: float = Field(default=defaults.WEIGHT_DECAY, description="Decoupled weight decay.", ge=0)
    schedule: Literal["constant", "linear", "cosine"] = Field(
        default="constant", description="Learning rate schedule over the run."
    )
    warmup_steps: int = Field(
        default=0, description="Number of warm-up steps, over which the learning rate rises from 0.", ge=0
    )
    min_lr_ratio: float = Field(
        default=0.0,
        description="Final learning rate of the linear and cosine schedules, as a fraction of lr.",
        ge=0,
        le=1,
    )
    grad_clip: float = Field(
        default=defaults.GRAD_CLIP, description="Maximum gradient norm; 0 disables clipping.", ge=0
    )
    epochs: int = Field(default=defaults.EPOCHS, description="Number of passes over each rollout.", ge=1)
    minibatches: int = Field(default=defaults.MINIBATCHES, description="Number of optimiser steps per pass.", ge=1)
    microbatch_tokens: int | None = Field(
        default=None,
        description="Tokens per forward and backward pass, with padding. Default: as many as fit in device memory.",
        ge=1,
    )
    max_skipped: int = Field(
        default=defaults.MAX_SKIPPED,
        description="Number of consecutive non-finite steps after which the run stops.",
        ge=1,
    )
