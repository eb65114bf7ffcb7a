"""Keyed random numbers: one uniform number for each (seed, step, slot, attempt, sample, position).

No number depends on how many were drawn before, so a resumed run draws the same numbers as an uninterrupted one. Each
field of the key is mixed in with the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), a bijection of
64-bit words; the top 53 bits of the result form the uniform.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)


def _mix(word: U64) -> U64:
    word = (word ^ (word >> np.uint64(30))) * _M1
    word = (word ^ (word >> np.uint64(27))) * _M2
    return word ^ (word >> np.uint64(31))


def stream(seed: int, *fields: int | NDArray[np.integer]) -> U64:
    """Hash a seed and any number of integer fields to a 64-bit word; arrays broadcast."""
    with np.errstate(over="ignore"):
        word = _mix(np.asarray(seed & 0xFFFFFFFFFFFFFFFF, np.uint64) + _GAMMA)
        for field in fields:
            word = _mix((word ^ np.asarray(field).astype(np.uint64)) + _GAMMA)
    return word


def uniform(words: U64, position: int | NDArray[np.integer]) -> NDArray[np.float64]:
    """Return uniforms in [0, 1) for the given streams at a position."""
    with np.errstate(over="ignore"):
        mixed = _mix((words ^ np.asarray(position).astype(np.uint64)) + _GAMMA)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
