"""How samples are drawn and how each is credited relative to its group."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from steelyard import defaults
from steelyard.config.base import Section
from steelyard.import_paths import is_import_path
from steelyard.suggest import did_you_mean
from steelyard.types import CutRule

ADVANTAGES = ("group_norm", "group_mean", "rloo", "batch_norm", "best_of_group", "pass_at_k", "max_at_k")
"""The estimators of ``steelyard.algorithms.advantages``, which cannot be imported here (it needs torch)."""
_PLAIN = CutRule()


class VllmConfig(Section):
    """How the engine vLLM is set up."""

    dtype: Literal["float32", "bfloat16", "float16"] | None = Field(
        default=None, description="Type of its weights and cache; empty: that of the policy's weights."
    )
    memory: float = Field(
        default=defaults.VLLM_MEMORY,
        description="Share of the device's memory for its weights and cache.",
        gt=0,
        le=1,
    )
    cache_gib: float | None = Field(
        default=None, description="Memory for keys and values, taken at once; empty: what memory leaves.", gt=0
    )
    max_length: int | None = Field(
        default=None, description="Longest sequence, prompt and completion together; empty: the model's own.", ge=2
    )
    eager: bool | None = Field(
        default=None, description="No compilation and no CUDA graphs: starts sooner, samples slower; empty: on a CPU."
    )
    lora: Literal["merge", "serve"] | None = Field(
        default=None,
        description="An adapter is merged into the weights or served beside them; empty: merged on a "
        "CPU and for DoRA, else served.",
    )


class SamplingConfig(Section):
    tasks_per_step: int = Field(default=8, description="Tasks drawn per step.", ge=1)
    group_size: int = Field(default=16, description="Samples per task; each is credited relative to them.", ge=2)
    max_new_tokens: int = Field(
        default=defaults.MAX_NEW_TOKENS,
        description="Longest completion, in tokens; of a masked model the most holes of a text.",
        ge=1,
    )
    temperature: float = Field(default=_PLAIN.temperature, description="Divides the logits.", gt=0)
    top_k: int = Field(default=_PLAIN.top_k, description="Keep the k most likely tokens; 0 keeps all.", ge=0)
    top_p: float = Field(
        default=_PLAIN.top_p, description="Keep the fewest tokens whose mass reaches p; 1 keeps all.", gt=0, le=1
    )
    min_p: float = Field(
        default=_PLAIN.min_p, description="Keep tokens this likely relative to the likeliest; 0 keeps all.", ge=0, lt=1
    )
    supports: Literal["stored", "replayed"] = Field(
        default=defaults.SUPPORTS,
        description="What could have been drawn: stored with the sample, or found again before the update.",
    )
    staleness: int = Field(
        default=0,
        description="Sample ahead of the learner, at most so many versions behind; 0: in turn, with exact resume.",
        ge=0,
    )
    fill_steps: int = Field(
        default=defaults.FILL_STEPS,
        description="Of a masked model: forward passes in which the holes are filled, part by part.",
        ge=1,
    )
    fill_order: Literal["random", "left_to_right"] = Field(
        default=defaults.FILL_ORDER, description="Of a masked model, with several steps: which holes come first."
    )
    max_rows: int = Field(default=defaults.MAX_ROWS, description="Sequences decoded at once.", ge=1)
    engine: Literal["local", "vllm"] = Field(
        default="local", description="The policy's own transformers model, or vLLM (extra vllm, docs/vllm.md)."
    )
    vllm: VllmConfig | None = Field(default=None, description="Settings of engine = vllm.")


class LengthPenaltyConfig(Section):
    """Soft length penalty (DAPO, arXiv 2503.14476): 0 up to start, then linear to -weight at limit."""

    start: int = Field(description="Completion length at which the penalty begins.", ge=0)
    limit: int | None = Field(
        default=None, description="Length of the full penalty; empty: sampling.max_new_tokens.", ge=1
    )
    weight: float = Field(default=defaults.LENGTH_PENALTY_WEIGHT, description="The full penalty.", gt=0)


class CreditConfig(Section):
    advantage: str = Field(
        default="group_norm", description=f"{', '.join(ADVANTAGES)}, or your own as module:function."
    )
    k: int | None = Field(default=None, description="The k of pass_at_k and max_at_k.", ge=1)
    advantage_clip: float | None = Field(default=None, description="Clamp advantages to plus or minus this.", gt=0)
    gamma: float = Field(
        default=defaults.GAMMA, description="Discount per step reward (spans, not tokens).", ge=0, le=1
    )
    truncated: Literal["count", "mask", "penalise"] = Field(
        default=defaults.TRUNCATED,
        description="Samples cut off at max_new_tokens: like any other, not learnt from, or reward reduced.",
    )
    truncation_penalty: float | None = Field(
        default=None,
        description=f"What truncated = penalise takes off the reward; empty: {defaults.TRUNCATION_PENALTY:g}.",
        ge=0,
    )
    length_penalty: LengthPenaltyConfig | None = Field(default=None, description="Soft penalty for long completions.")
    refill_dead_groups: int = Field(
        default=0,
        description="How often a group without any advantage, or with too few scored samples, is replaced by another "
        "task's.",
        ge=0,
    )
    min_scored: int = Field(
        default=defaults.MIN_SCORED, description="A group with fewer scored samples is not learnt from.", ge=2
    )

    @field_validator("advantage")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in ADVANTAGES and not is_import_path(name):
            choices = f"must be one of {', '.join(ADVANTAGES)}, or your own as module:function"
            raise ValueError(choices + did_you_mean(name, ADVANTAGES))
        return name
