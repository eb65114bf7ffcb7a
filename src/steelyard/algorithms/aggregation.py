"""Aggregation of per-decision losses into one loss: ``loss = sum_N weight_N * loss_N``.

The weights are computed once per minibatch, so the losses of its microbatches add up, however the minibatch is split.
Samples without decisions do not count towards any denominator.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from steelyard.algorithms.flat import renumber, require_flat
from steelyard.algorithms.lookup import look_up
from steelyard.errors import ConfigError


def _sequence_mean(count_M: Tensor, _: float | None) -> Tensor:
    """GRPO: mean over the decisions of a sample, then mean over samples. arXiv 2402.03300."""
    return 1 / (count_M * len(count_M))


def _token_mean(count_M: Tensor, _: float | None) -> Tensor:
    """DAPO: mean over all decisions. arXiv 2503.14476."""
    return torch.ones_like(count_M) / count_M.sum()


def _constant(count_M: Tensor, length: float | None) -> Tensor:
    """Dr. GRPO: sum over the decisions of a sample / fixed length, then mean over samples. arXiv 2503.20783."""
    if length is None or length <= 0:
        raise ConfigError(
            f"aggregation 'constant' needs length > 0, usually the maximum sample length; got length = {length}"
        )
    return torch.ones_like(count_M) / (length * len(count_M))


AGGREGATIONS: dict[str, Callable[[Tensor, float | None], Tensor]] = {
    "sequence_mean": _sequence_mean,
    "token_mean": _token_mean,
    "constant": _constant,
}
"""Functions that map the number of decisions in each sample to the weight of each of its decisions."""


def decision_weights(
    name: str, sample_N: Tensor, *, length: float | None = None, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return the weight of each decision in a minibatch. ``sample_N`` holds the sample index of each (any integers).

    For N decisions in M samples, |o_i| of them in sample i, the weight is 1 / (|o_i| M) for ``sequence_mean``, 1 / N
    for ``token_mean`` and 1 / (length M) for ``constant``. Only ``constant`` uses ``length``.
    """
    require_flat(sample_N=sample_N)
    weight_per_sample = look_up("aggregation", name, AGGREGATIONS)
    index_N, count_M = renumber(sample_N)
    return weight_per_sample(count_M.to(dtype), length)[index_N]
