"""How the losses of decisions become one loss: a weight per decision, ``loss = sum_N weight_N * loss_N``.

Weights are made once for a whole minibatch; its microbatches then simply add up, whatever way it is split. Samples
without decisions are in no denominator.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from steelyard.algorithms.flat import renumber, require_flat
from steelyard.algorithms.names import look_up
from steelyard.errors import ConfigError


def _sequence_mean(count_M: Tensor, _: float | None) -> Tensor:
    """GRPO: mean over the decisions of a sample, then mean over samples. arXiv 2402.03300."""
    return 1 / (count_M * len(count_M))


def _token_mean(count_M: Tensor, _: float | None) -> Tensor:
    """DAPO: mean over all decisions. arXiv 2503.14476."""
    return torch.ones_like(count_M) / count_M.sum()


def _constant(count_M: Tensor, length: float | None) -> Tensor:
    """Dr. GRPO: sum over a sample divided by a fixed length, then mean over samples. arXiv 2503.20783."""
    if length is None or length <= 0:
        raise ConfigError(f"aggregation 'constant' needs a length > 0 to divide by (the longest sample), got {length}")
    return torch.ones_like(count_M) / (length * len(count_M))


AGGREGATIONS: dict[str, Callable[[Tensor, float | None], Tensor]] = {
    "sequence_mean": _sequence_mean,
    "token_mean": _token_mean,
    "constant": _constant,
}
"""Name -> weight of each decision of a sample, from the samples' numbers of decisions."""


def decision_weights(
    name: str, sample_N: Tensor, *, length: float | None = None, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Weight of each decision of a minibatch; ``sample_N`` says which sample each belongs to (any integers).

    ``sequence_mean``: 1 / (|o_i| M), ``token_mean``: 1 / N, ``constant``: 1 / (length M), M being the number of samples
    with decisions. ``length`` is only used by ``constant``.
    """
    require_flat(sample_N=sample_N)
    weigh = look_up("aggregation", name, AGGREGATIONS)
    index_N, count_M = renumber(sample_N)
    return weigh(count_M.to(dtype), length)[index_N]
