"""Configuration of the warm start: supervised training before the first step."""

from __future__ import annotations

from pydantic import Field

from steelyard.config.base import Section


class WarmstartConfig(Section):
    """Supervised training on the domain's examples before the first step; other settings come from [optimiser]."""

    examples: int = Field(default=20_000, description="Number of examples, each seen once.", ge=1)
    batch: int = Field(default=64, description="Examples per update.", ge=1)
    lr: float = Field(
        default=1e-3, description="Peak learning rate; a cosine schedule decays it to a tenth of this value.", gt=0
    )
    warmup_steps: int = Field(
        default=20, description="Number of warm-up updates, over which the learning rate rises from 0.", ge=0
    )
    folder: str | None = Field(
        default=None,
        description="Model written by `steelyard warmstart`. Default: a model trained at the start of the run.",
        min_length=1,
    )

    @property
    def updates(self) -> int:
        """Number of updates, rounded up so that the last batch is full."""
        return -(-self.examples // self.batch)
