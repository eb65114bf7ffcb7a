"""Build optimisers by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import nn

from steelyard import defaults
from steelyard.errors import ConfigError, MissingExtraError
from steelyard.training.chunked_adamw import ChunkedAdamW, ChunkRule, TorchAdamW
from steelyard.training.shard_adamw import BlockAdamW8bit, ShardAdamW8bit

Rounding = Literal["stochastic", "nearest", "master"]


def build_optimiser(
    name: str,
    parameters: Iterable[nn.Parameter],
    *,
    lr: float,
    betas: tuple[float, float] = defaults.BETAS,
    eps: float = defaults.EPS,
    weight_decay: float = defaults.WEIGHT_DECAY,
    rounding: Rounding = defaults.ROUNDING,
    seed: int = 0,
    grouped: bool = False,
) -> torch.optim.Optimizer:
    """Build ``adamw`` (for-each), ``adamw_fused`` (one kernel) or ``adamw_8bit`` (8-bit states, arXiv 2110.02861).

    ``rounding`` applies to bfloat16 weights: ``stochastic`` rounding keyed by ``seed``, rounding to ``nearest``, or
    ``master`` weights in float32. Set ``grouped`` on a rank that may hold only a shard of each weight.
    """
    weights = list(parameters)
    options: dict[str, Any] = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
    if rounding != "nearest" and any(weight.dtype is torch.bfloat16 for weight in weights):
        return ChunkedAdamW(_rule(name), weights, seed=seed, master=rounding == "master", **options)
    if name == "adamw":
        return torch.optim.AdamW(weights, **options)
    if name == "adamw_fused":
        return torch.optim.AdamW(weights, fused=True, **options)
    if name == "adamw_8bit":
        engine = _adamw_8bit()
        return ShardAdamW8bit(engine, weights, **options) if grouped else engine(weights, **options)
    raise _unknown(name)


def _rule(name: str) -> ChunkRule:
    if name == "adamw_8bit":
        return BlockAdamW8bit(_adamw_8bit())
    if name in ("adamw", "adamw_fused"):
        return TorchAdamW()
    raise _unknown(name)


def _unknown(name: str) -> ConfigError:
    return ConfigError(f"optimiser.name = {name!r} is unknown: choose adamw, adamw_fused or adamw_8bit")


def _adamw_8bit() -> Any:
    try:
        from bitsandbytes.optim import AdamW8bit  # pyright: ignore[reportPrivateImportUsage]
    except ImportError as error:
        raise MissingExtraError("8-bit AdamW", "bitsandbytes") from error
    return AdamW8bit
