"""Seconds per unit of each kind of work, taken from a data sheet or fitted to measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from steelyard.planning.hardware import Accelerator
from steelyard.planning.work import Work


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds per unit of each field of ``Work``; times are added up, without overlap."""

    calls: float = 0.0
    flops: float = 0.0
    weights: float = 0.0
    cache: float = 0.0
    activations: float = 0.0
    logits: float = 0.0
    state: float = 0.0
    tokens: float = 0.0

    def seconds(self, work: Work) -> float:
        return sum(rate * amount for rate, amount in zip(self.values(), work.amounts(), strict=True))

    def values(self) -> list[float]:
        return [getattr(self, f.name) for f in fields(Rates)]


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Assumed fractions of data-sheet rates that an engine reaches; replace them with your own measurements."""

    sampling_flops: float = 0.5
    learning_flops: float = 0.4
    """Model FLOPs utilisation, including everything between the matrix products."""
    bandwidth: float = 0.7
    call: float = 0.5e-6
    """Seconds per kernel launch when sampling (CUDA graphs); the learner launches kernels ahead of time."""


def sampling_rates(kind: Accelerator, accelerators: int, efficiency: Efficiency) -> Rates:
    """Return the rates of several accelerators that share a model (tensor parallel)."""
    byte = 1 / (accelerators * kind.bandwidth * efficiency.bandwidth)
    flop = 1 / (accelerators * kind.flops * efficiency.sampling_flops)
    return Rates(calls=efficiency.call, flops=flop, weights=byte, cache=byte, logits=4 * byte)


def learning_rates(kind: Accelerator, accelerators: int, efficiency: Efficiency) -> Rates:
    """Return the rates of several accelerators that split the batch and the optimiser state."""
    byte = 1 / (accelerators * kind.bandwidth * efficiency.bandwidth)
    return Rates(flops=1 / (accelerators * kind.flops * efficiency.learning_flops), state=byte)


def fit(works: Sequence[Work], seconds: Sequence[float], kinds: Sequence[str]) -> Rates:
    """Fit non-negative rates for the given kinds of work, minimising the squared *relative* error.

    Non-negative least squares by coordinate descent: minimise |A r - 1|^2 with A = work / seconds, r >= 0.
    """
    columns = [[getattr(work, kind) for kind in kinds] for work in works]
    relative = np.asarray(columns, float) / np.asarray(seconds, float)[:, None]
    scale = np.maximum(np.abs(relative).max(axis=0), 1e-300)
    found = _non_negative(relative / scale) / scale
    return Rates(**dict(zip(kinds, found.tolist(), strict=True)))


def _non_negative(matrix: np.ndarray, rounds: int = 20_000) -> np.ndarray:
    target = np.ones(len(matrix))
    gram, right = matrix.T @ matrix, matrix.T @ target
    solution = np.zeros(matrix.shape[1])
    for _ in range(rounds):
        before = solution.copy()
        for index in range(len(solution)):
            if gram[index, index] > 0:
                slack = right[index] - gram[index] @ solution + gram[index, index] * solution[index]
                solution[index] = max(0.0, slack / gram[index, index])
        if np.abs(solution - before).max() <= 1e-12 * max(np.abs(solution).max(), 1e-300):
            break
    return solution
