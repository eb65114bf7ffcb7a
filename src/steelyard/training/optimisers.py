"""Optimisers by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from steelyard.errors import ConfigError, MissingExtraError
from steelyard.training.shard_adamw import ShardAdamW8bit


def build_optimiser(
    name: str,
    parameters: Iterable[nn.Parameter],
    *,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    grouped: bool = False,
) -> torch.optim.Optimizer:
    """``adamw`` (for-each), ``adamw_fused`` (one kernel), or ``adamw_8bit`` (states in 8 bits, arXiv 2110.02861);
    ``grouped``: of a rank that may hold only a part of each weight.
    """
    options: dict[str, Any] = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
    if name == "adamw":
        return torch.optim.AdamW(parameters, **options)
    if name == "adamw_fused":
        return torch.optim.AdamW(parameters, fused=True, **options)
    if name == "adamw_8bit":
        engine = _adamw_8bit()
        return ShardAdamW8bit(engine, parameters, **options) if grouped else engine(parameters, **options)
    raise ConfigError(f"optimiser.name is {name!r}; choose adamw, adamw_fused or adamw_8bit")


def _adamw_8bit() -> Any:
    try:
        from bitsandbytes.optim import AdamW8bit  # pyright: ignore[reportPrivateImportUsage]
    except ImportError as error:
        raise MissingExtraError("8-bit AdamW", "bitsandbytes") from error
    return AdamW8bit
