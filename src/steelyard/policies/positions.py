"""Maximum input length of a model."""

from __future__ import annotations

from typing import Any

from torch import nn


def positions(model: Any) -> int | None:
    """Return the maximum number of input tokens, or None if the configuration does not specify it.

    RoBERTa and related models number positions from ``padding_idx + 1``, so earlier positions are never used.
    """
    limit: int | None = getattr(model.config, "max_position_embeddings", None)
    if limit is None:
        return None
    tables = [module for name, module in model.named_modules() if name.endswith("position_embeddings")]
    padding = [table.padding_idx for table in tables if isinstance(table, nn.Embedding)]
    return limit - max((index + 1 for index in padding if index is not None), default=0)
