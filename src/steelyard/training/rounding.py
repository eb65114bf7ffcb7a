r"""Stochastic rounding of float32 to bfloat16, with reproducible random bits.

bfloat16 has 8 significant bits, so rounding to nearest loses any update smaller than 1/512 of the weight. Stochastic
rounding picks one of the two neighbours :math:`a \le x \le b` with :math:`P(b) = (x - a) / (b - a)`. The rounding is
unbiased, :math:`E[\mathrm{round}(x)] = x`, and does not change numbers that bfloat16 represents exactly (arXiv
2010.06192). bfloat16 is the upper half of float32, so the implementation adds a uniform 16-bit integer to the bits of
:math:`x` and clears the lower half.

The integer for element :math:`e` of weight :math:`p` at step :math:`t` is
:math:`L_{t}[e \bmod 2^{17}] \oplus H_{t,p}[\lfloor e / 2^{17} \rfloor]`. Both tables are drawn from the run's seed by
:mod:`steelyard.sampling.randomness`. The integers are uniform and pairwise independent, which suffices for means and
variances, and a table is far cheaper than one hash per element. The bits do not depend on the device, on earlier draws
or on how a weight is sharded across ranks.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from steelyard.sampling.randomness import U64, stream

BLOCK = 1 << 17
"""Number of elements per block; all blocks use the same low table."""
STREAMS = 3
"""Number of independent integers per element: for its weight and its two moments."""
_PURPOSE = 0x726F756E64
"""Distinguishes these random numbers from those used for sampling."""
_UPPER_HALF = -(1 << 16)


def round_stochastically(value: Tensor, bits: Tensor) -> None:
    """Round float32 values in place to bfloat16 values; ``bits`` are uniform integers from 0 to 65535.

    Infinities and NaN are unchanged.
    """
    if value.sum().isfinite():
        _round(value, bits)
        return
    nonfinite = ~value.isfinite()
    unchanged = value[nonfinite]
    _round(value, bits)
    value[nonfinite] = unchanged


def _round(value: Tensor, bits: Tensor) -> None:
    value.view(torch.int32).add_(bits).bitwise_and_(_UPPER_HALF)


class RoundingBits:
    """The random integers of one weight at one step."""

    def __init__(self, seed: int, step: int, weight: int, elements: int, device: torch.device) -> None:
        blocks = np.arange(-(-elements // BLOCK))
        self._low = _low(seed, step, device)
        self._high: list[list[int]] = _split_words(stream(seed, _PURPOSE, step, 1 + weight, blocks)).tolist()

    def into(self, start: int, out: Tensor) -> None:
        """Fill ``out``, ``[at most STREAMS, count]``, with the integers of ``count`` elements from ``start``."""
        done, count = 0, out.shape[1]
        while done < count:
            block, offset = divmod(start + done, BLOCK)
            length = min(count - done, BLOCK - offset)
            for low, high, row in zip(self._low, self._high, out, strict=False):
                torch.bitwise_xor(low[offset : offset + length], high[block], out=row[done : done + length])
            done += length


@lru_cache(maxsize=2)
def _low(seed: int, step: int, device: torch.device) -> Tensor:
    return _split_words(stream(seed, _PURPOSE, step, 0, np.arange(BLOCK))).to(device)


def _split_words(words: U64) -> Tensor:
    """Split each 64-bit word into three 16-bit integers."""
    shifts = np.arange(STREAMS, dtype=np.uint64)[:, None] * np.uint64(16)
    return torch.from_numpy(((words[None, :] >> shifts) & np.uint64(0xFFFF)).astype(np.int32))


def first_element(weight: Tensor) -> int:
    """Return the index in the full weight of the first element on this rank. The rows are sharded across ranks."""
    if not isinstance(weight, DTensor):
        return 0
    mesh, rows = weight.device_mesh, weight.shape[0]
    share = -(-rows // mesh.size())
    return min(mesh.get_local_rank() * share, rows) * (weight.numel() // rows)
