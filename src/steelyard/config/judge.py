"""Configuration of the judge, a classifier that distinguishes real from generated text."""

from __future__ import annotations

from pydantic import Field

from steelyard.config.base import Section


class JudgeConfig(Section):
    """A frozen judge. The judge's score, the probability that a sample is real, is added to the domain's reward."""

    weight: float = Field(default=1.0, description="Weight of the judge's score, added to the domain's reward.", ge=0)
    examples: int = Field(
        default=10_000,
        description="Number of real texts to train on; an equal number of generated texts is added.",
        ge=1,
    )
    batch: int = Field(
        default=32, description="Real texts per update; an equal number of generated texts is added.", ge=1
    )
    lr: float = Field(
        default=3e-4, description="Peak learning rate; a cosine schedule decays it to a tenth of this value.", gt=0
    )
    warmup_steps: int = Field(
        default=20, description="Number of warm-up updates, over which the learning rate rises from 0.", ge=0
    )
    seed: int = Field(default=0, description="Seed for initialising the classifier head and choosing examples.", ge=0)
    folder: str | None = Field(
        default=None,
        description="Judge written by `steelyard judge train`. Default: a judge trained at the start of the run.",
        min_length=1,
    )

    @property
    def updates(self) -> int:
        return -(-self.examples // self.batch)
