"""A model that learns to tell what is real from what a policy makes, and then judges it."""

from __future__ import annotations

from pydantic import Field

from steelyard.config.base import Section


class JudgeConfig(Section):
    """Its score, the probability that a sample is real, is added to the domain's reward; it is frozen in training."""

    weight: float = Field(default=1.0, description="Weight of the judge's score beside the domain's own reward.", ge=0)
    examples: int = Field(default=10_000, description="How many real texts it sees, and as many made ones.", ge=1)
    batch: int = Field(default=32, description="Real texts per update, beside as many made ones.", ge=1)
    lr: float = Field(default=3e-4, description="Learning rate; it falls to a tenth along a cosine.", gt=0)
    warmup_steps: int = Field(default=20, description="Updates over which the rate rises from 0.", ge=0)
    seed: int = Field(default=0, description="Decides its head and its examples: two judges differ by it.", ge=0)
    folder: str | None = Field(
        default=None,
        description="Folder that `steelyard judge train` wrote; empty: trained at the start of the run.",
        min_length=1,
    )

    @property
    def updates(self) -> int:
        return -(-self.examples // self.batch)
