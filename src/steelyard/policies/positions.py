"""How many tokens a model has positions for."""

from __future__ import annotations

from typing import Any

from torch import nn


def positions(model: Any) -> int | None:
    """The most tokens of an input, None if the model does not say.

    RoBERTa and its kin count from the padding token's number on, so that many of their positions and one more are never
    a token's.
    """
    limit: int | None = getattr(model.config, "max_position_embeddings", None)
    if limit is None:
        return None
    tables = [module for name, module in model.named_modules() if name.endswith("position_embeddings")]
    padding = [table.padding_idx for table in tables if isinstance(table, nn.Embedding)]
    return limit - max((index + 1 for index in padding if index is not None), default=0)
