"""What comes before the first step."""

from __future__ import annotations

from pydantic import Field

from steelyard.config.base import Section


class WarmstartConfig(Section):
    """Supervised training on the domain's examples before the first step; the rest is as in [optimiser]."""

    examples: int = Field(default=20_000, description="How many examples are seen, each once.", ge=1)
    batch: int = Field(default=64, description="Examples per update.", ge=1)
    lr: float = Field(default=1e-3, description="Learning rate; it falls to a tenth along a cosine.", gt=0)
    warmup_steps: int = Field(default=20, description="Updates over which the rate rises from 0.", ge=0)
    folder: str | None = Field(
        default=None,
        description="Folder that `steelyard warmstart` wrote, to begin from instead of training anew.",
        min_length=1,
    )

    @property
    def updates(self) -> int:
        """How often the model is updated; the last batch is a whole one."""
        return -(-self.examples // self.batch)
