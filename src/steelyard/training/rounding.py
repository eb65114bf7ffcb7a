r"""Stochastic rounding of float32 to bfloat16, with random bits that are a function of their key.

A weight of bfloat16 has 8 significant bits: an update below 1/512 of it is lost when it is rounded to nearest. Rounded
to one of its two neighbours :math:`a \le x \le b` with :math:`P(b) = (x - a) / (b - a)`, it is right on average,
:math:`E[\mathrm{round}(x)] = x`, and a number that bfloat16 can hold stays what it is (arXiv 2010.06192). bfloat16 is
the upper half of float32, so this is: add a uniform 16-bit integer to the bits of :math:`x`, and drop the lower half.

The integer for element :math:`e` of weight :math:`p` at step :math:`t` is
:math:`L_{t}[e \bmod 2^{17}] \oplus H_{t,p}[\lfloor e / 2^{17} \rfloor]`, with both tables drawn by
:mod:`steelyard.sampling.randomness` from the run's seed. Every integer is uniform and any two are independent, which
is all that means and variances depend on; a table costs nothing next to one hash per element. No bit depends on how
many were drawn before, on the device, or on how a weight is divided among ranks.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from steelyard.sampling.randomness import U64, stream

BLOCK = 1 << 17
"""Elements that share a table."""
STREAMS = 3
"""Independent integers for each element: its weight and its two moments."""
_PURPOSE = 0x726F756E64
"""Keeps these keys apart from those of samples."""
_UPPER_HALF = -(1 << 16)


def round_stochastically(value: Tensor, bits: Tensor) -> None:
    """Round float32 numbers in place to numbers of bfloat16, by uniform integers from 0 to 65535; infinities and NaN
    stay what they are.
    """
    if value.sum().isfinite():
        _round(value, bits)
        return
    odd = ~value.isfinite()
    kept = value[odd]
    _round(value, bits)
    value[odd] = kept


def _round(value: Tensor, bits: Tensor) -> None:
    value.view(torch.int32).add_(bits).bitwise_and_(_UPPER_HALF)


class RoundingBits:
    """The integers of one weight at one step."""

    def __init__(self, seed: int, step: int, weight: int, elements: int, device: torch.device) -> None:
        blocks = np.arange(-(-elements // BLOCK))
        self._low = _low(seed, step, device)
        self._high: list[list[int]] = _pieces(stream(seed, _PURPOSE, step, 1 + weight, blocks)).tolist()

    def into(self, start: int, out: Tensor) -> None:
        """Fill ``out``, ``[at most STREAMS, count]``, for the elements from ``start`` on."""
        done, count = 0, out.shape[1]
        while done < count:
            block, at = divmod(start + done, BLOCK)
            taken = min(count - done, BLOCK - at)
            for low, high, row in zip(self._low, self._high, out, strict=False):
                torch.bitwise_xor(low[at : at + taken], high[block], out=row[done : done + taken])
            done += taken


@lru_cache(maxsize=2)
def _low(seed: int, step: int, device: torch.device) -> Tensor:
    return _pieces(stream(seed, _PURPOSE, step, 0, np.arange(BLOCK))).to(device)


def _pieces(words: U64) -> Tensor:
    """Three 16-bit integers of every 64-bit word."""
    shifts = np.arange(STREAMS, dtype=np.uint64)[:, None] * np.uint64(16)
    return torch.from_numpy(((words[None, :] >> shifts) & np.uint64(0xFFFF)).astype(np.int32))


def first_element(weight: Tensor) -> int:
    """Where this rank's part of a weight starts in the whole weight, whose rows are divided among the ranks."""
    if not isinstance(weight, DTensor):
        return 0
    mesh, rows = weight.device_mesh, weight.shape[0]
    share = -(-rows // mesh.size())
    return min(mesh.get_local_rank() * share, rows) * (weight.numel() // rows)
