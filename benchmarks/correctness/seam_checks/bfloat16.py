"""Full fine-tuning in bfloat16 does not lose small updates."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor, nn

from benchmarks.correctness.seam_checks import SeamCheck
from steelyard.training.optimisers import build_optimiser
from steelyard.training.rounding import STREAMS, RoundingBits, round_stochastically

ITEM = "bfloat16 fine-tuning"
LR = 1e-5
NUMBERS, STEPS = 1 << 16, 100


@lru_cache
def _change(dtype: torch.dtype) -> Tensor:
    """Return the change in weights of pretrained magnitude after 100 steps at 1e-5, with non-zero-mean gradients."""
    generator = torch.Generator().manual_seed(0)
    start = (0.03 * torch.randn(NUMBERS, generator=generator)).bfloat16()
    mean = torch.randn(NUMBERS, generator=generator)
    weight = nn.Parameter(start.to(dtype, copy=True))
    optimiser = build_optimiser("adamw_fused", [weight], lr=LR)
    for _ in range(STEPS):
        weight.grad = (mean + torch.randn(NUMBERS, generator=generator)).bfloat16().to(dtype)
        optimiser.step()
    return weight.detach().double() - start.double()


def share_that_moves(_quick: bool) -> float:
    """Return the fraction of weights that changed."""
    return float((_change(torch.bfloat16) != 0).double().mean())


def share_that_arrives(_quick: bool) -> float:
    """Return the projection of the bfloat16 change onto the float32 change, relative to the latter."""
    narrow, wide = _change(torch.bfloat16), _change(torch.float32)
    return float(narrow @ wide / (wide @ wide))


def bias_of_rounding(_quick: bool) -> float:
    """Return the largest bias of a rounded number, in units of the last bit, over 64 values between two neighbours.

    Rounding to nearest has a bias of 0.5.
    """
    bits, worst = torch.empty(STREAMS, NUMBERS, dtype=torch.int32), 0.0
    RoundingBits(0, 1, 0, NUMBERS, torch.device("cpu")).into(0, bits)
    for part in range(64):
        value = torch.full((STREAMS, NUMBERS), 1 + (part + 0.5) / 64 * 2**-7)
        exact = float(value[0, 0])
        round_stochastically(value, bits)
        worst = max(worst, float((value.bfloat16().double().mean(1) - exact).abs().max()) * 2**7)
    return worst


CHECKS = (
    SeamCheck(ITEM, "share of weights that move at 1e-5", 0.104, share_that_moves, ">=", 0.9),
    SeamCheck(ITEM, "weight change relative to float32", 0.0952, share_that_arrives, ">=", 0.97),
    SeamCheck(ITEM, "rounding bias in units of the last bit", 0.5, bias_of_rounding, "<=", 0.01),
)
