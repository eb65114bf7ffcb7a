"""Configuration of sampling, episodes and credit (the advantage of each sample relative to its group)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from steelyard import defaults
from steelyard.config.base import Section
from steelyard.import_paths import is_import_path
from steelyard.suggest import did_you_mean
from steelyard.types import CutRule

ADVANTAGES = ("group_norm", "group_mean", "rloo", "batch_norm", "best_of_group", "pass_at_k", "max_at_k")
"""Names of the estimators in ``steelyard.algorithms.advantages``, which needs torch and cannot be imported here."""
TOOLS = ("calculator", "python")
"""Names of the tools in ``steelyard.tools``, which cannot be imported here."""
_PLAIN = CutRule()


class VllmConfig(Section):
    """Settings of the vLLM engine."""

    dtype: Literal["float32", "bfloat16", "float16"] | None = Field(
        default=None, description="Data type of vLLM's weights and cache. Default: the policy's data type."
    )
    memory: float = Field(
        default=defaults.VLLM_MEMORY,
        description="Fraction of device memory for vLLM's weights and cache.",
        gt=0,
        le=1,
    )
    cache_gib: float | None = Field(
        default=None,
        description="Size of the key/value cache in GiB, allocated at startup. Default: the remaining memory.",
        gt=0,
    )
    max_length: int | None = Field(
        default=None,
        description="Maximum sequence length, prompt and completion together. Default: the model's maximum.",
        ge=2,
    )
    eager: bool | None = Field(
        default=None,
        description="Skip compilation and CUDA graphs, for faster startup but slower sampling. Default: true on a CPU.",
    )
    lora: Literal["merge", "serve"] | None = Field(
        default=None,
        description="Merge the adapter into the weights, or serve it separately. Default: merge on a CPU and for DoRA, "
        "otherwise serve.",
    )


class SamplingConfig(Section):
    tasks_per_step: int = Field(default=8, description="Number of tasks per step.", ge=1)
    group_size: int = Field(default=16, description="Number of samples per task, which form a group.", ge=2)
    max_new_tokens: int = Field(
        default=defaults.MAX_NEW_TOKENS,
        description="Maximum tokens per completion; for a masked model, maximum holes per text.",
        ge=1,
    )
    temperature: float = Field(
        default=_PLAIN.temperature, description="Sampling temperature; logits are divided by it.", gt=0
    )
    top_k: int = Field(
        default=_PLAIN.top_k, description="Sample only from the k most likely tokens; 0 samples from all.", ge=0
    )
    top_p: float = Field(
        default=_PLAIN.top_p,
        description="Sample from the smallest set of tokens with total probability at least p; 1 samples from all.",
        gt=0,
        le=1,
    )
    min_p: float = Field(
        default=_PLAIN.min_p,
        description="Sample only tokens at least min_p times as likely as the most likely one; 0 samples from all.",
        ge=0,
        lt=1,
    )
    supports: Literal["stored", "recomputed"] = Field(
        default=defaults.SUPPORTS,
        description="Whether each decision's token set is stored with the sample or recomputed by the learner.",
    )
    staleness: int = Field(
        default=0,
        description="Sample during updates, from weights at most this many versions old; 0 alternates sampling and "
        "updates, which makes resumed runs exact.",
        ge=0,
    )
    fill_steps: int = Field(
        default=defaults.FILL_STEPS,
        description="For masked models: number of forward passes used to fill the holes.",
        ge=1,
    )
    fill_order: Literal["random", "left_to_right"] = Field(
        default=defaults.FILL_ORDER,
        description="For masked models with several fill_steps: order in which holes are filled.",
    )
    max_rows: int = Field(
        default=defaults.MAX_ROWS, description="Maximum number of sequences decoded in one batch.", ge=1
    )
    engine: Literal["local", "vllm"] = Field(
        default="local",
        description="local samples with the transformers model itself; vllm requires the vllm extra (docs/vllm.md).",
    )
    vllm: VllmConfig | None = Field(default=None, description="Settings for engine = vllm.")


class EpisodeConfig(Section):
    """An episode: a sample of several turns, between which an environment or a tool replies."""

    max_turns: int = Field(default=8, description="Maximum number of policy turns in an episode.", ge=1)
    max_tokens: int | None = Field(
        default=None,
        description="Maximum number of tokens in an episode after its prompt, including replies. Default: as many as "
        "fit in the model's maximum length.",
        ge=1,
    )
    order: Literal["fixed", "arrival"] = Field(
        default="fixed",
        description="When an episode continues if its environment runs in workers. fixed: in an order that does not "
        "depend on how long replies take, so that resumed runs are bit-for-bit identical (local sampler only). "
        "arrival: as soon as its reply arrives.",
    )
    tools: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description=f"Tools that the policy can call: {', '.join(TOOLS)}, or your own as module:function.",
    )

    @field_validator("tools")
    @classmethod
    def _known_tools(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in TOOLS and not is_import_path(name):
                choices = f"{name!r} must be one of {', '.join(TOOLS)}, or your own as module:function"
                raise ValueError(choices + did_you_mean(name, TOOLS))
        return names


class LengthPenaltyConfig(Section):
    """Soft length penalty (DAPO, arXiv 2503.14476): 0 up to start, then linear to -weight at limit."""

    start: int = Field(description="Completion length at which the penalty starts.", ge=0)
    limit: int | None = Field(
        default=None,
        description="Completion length at which the full penalty applies. Default: sampling.max_new_tokens.",
        ge=1,
    )
    weight: float = Field(default=defaults.LENGTH_PENALTY_WEIGHT, description="Size of the full penalty.", gt=0)


class CreditConfig(Section):
    advantage: str = Field(
        default="group_norm",
        description=f"Advantage estimator: {', '.join(ADVANTAGES)}, or your own as module:function.",
    )
    k: int | None = Field(default=None, description="k for the pass_at_k and max_at_k estimators.", ge=1)
    advantage_clip: float | None = Field(default=None, description="Clip advantages to plus or minus this value.", gt=0)
    gamma: float = Field(
        default=defaults.GAMMA,
        description="Discount factor between the rewards of steps or turns (not per token).",
        ge=0,
        le=1,
    )
    per: Literal["turn", "episode"] = Field(
        default=defaults.CREDIT_PER,
        description="For episodes: credit each turn with the rewards from that turn on, or every turn with the reward "
        "of the whole episode.",
    )
    truncated: Literal["count", "mask", "penalise"] = Field(
        default=defaults.TRUNCATED,
        description="Samples cut off at max_new_tokens: train on them as usual, exclude them, or reduce their reward.",
    )
    truncation_penalty: float | None = Field(
        default=None,
        description="Penalty subtracted from the reward if truncated = penalise. "
        f"Default: {defaults.TRUNCATION_PENALTY:g}.",
        ge=0,
    )
    length_penalty: LengthPenaltyConfig | None = Field(default=None, description="Soft penalty for long completions.")
    refill_dead_groups: int = Field(
        default=0,
        description="Maximum number of times to replace a group with one for another task if no sample has an "
        "advantage or too few are scored.",
        ge=0,
    )
    min_scored: int = Field(
        default=defaults.MIN_SCORED, description="Minimum number of scored samples in a group used for training.", ge=2
    )

    @field_validator("advantage")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in ADVANTAGES and not is_import_path(name):
            choices = f"must be one of {', '.join(ADVANTAGES)}, or your own as module:function"
            raise ValueError(choices + did_you_mean(name, ADVANTAGES))
        return name
