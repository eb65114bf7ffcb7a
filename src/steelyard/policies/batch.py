"""The learner's batch: padded rows and a flat list of decisions.

Each of the ``N`` decisions records the row and column of the forward pass that it was sampled from, so causal text and
fill-in traces with several forward passes share one layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from steelyard.constraints.support_tables import bits_of
from steelyard.errors import PolicyError
from steelyard.types import Sample


@dataclass(frozen=True, slots=True)
class Supports:
    """The support of each decision, as an index into a table of distinct token sets stored as packed bits."""

    bits_UW: Tensor
    """``[U, ceil(V / 8)]`` of uint8, lowest bit first."""
    index_N: Tensor
    """Row of ``bits_UW`` per decision; -1 for the complete vocabulary."""

    def blocked(self, rows: slice, vocabulary: int) -> Tensor:
        """Return a mask ``[C, V]`` that is true for tokens outside the support. Repeated sets are unpacked once."""
        index_S, set_C = self.index_N[rows].unique(return_inverse=True)
        place_8 = torch.tensor([1 << bit for bit in range(8)], dtype=torch.uint8, device=index_S.device)
        bits_SW = self.bits_UW[index_S.clamp(min=0)]
        blocked_SV = ((bits_SW[:, :, None] & place_8) == 0).flatten(1)[:, :vocabulary]
        blocked_SV[index_S < 0] = False
        return blocked_SV.expand(len(set_C), -1) if len(index_S) == 1 else blocked_SV[set_C]

    def to(self, device: torch.device) -> Supports:
        return Supports(self.bits_UW.to(device), self.index_N.to(device))


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows for a forward pass and the decisions to score on them."""

    input_ids: Tensor
    """``[B, T]``, padded on the right. Causal models need no attention mask for padding; others use ``length_B``."""
    length_B: Tensor
    row_N: Tensor
    column_N: Tensor
    """Column whose output is the distribution of the decision."""
    token_N: Tensor
    sample_N: Tensor
    """Index of the decision's sample within the batch."""
    temperature_N: Tensor
    supports: Supports | None = None

    @property
    def decisions(self) -> int:
        return len(self.token_N)

    def to(self, device: torch.device) -> Batch:
        supports = None if self.supports is None else self.supports.to(device)
        moved = (getattr(self, name).to(device) for name in Batch.__slots__ if name != "supports")
        return Batch(*moved, supports=supports)


def pad_rows(rows: Sequence[np.ndarray], fill: int, *, left: bool = False) -> Tensor:
    """Stack rows of different lengths into ``[B, T]``, padded with ``fill``."""
    width = max(len(row) for row in rows)
    padded = np.full((len(rows), width), fill, dtype=np.int64)
    for place, row in zip(padded, rows, strict=True):
        place[slice(width - len(row), None) if left else slice(len(row))] = row
    return torch.from_numpy(padded)


def collate_causal(samples: Sequence[Sample], pad_id: int) -> Batch:
    """Build a batch for a causal model: the output at p - 1 is the distribution of the token at p."""
    if not samples:
        raise PolicyError("cannot collate an empty list of samples; pass at least one")
    rows = [sample.token_ids[:-1] for sample in samples]
    counts = [len(sample.decisions) for sample in samples]
    row_N = np.repeat(np.arange(len(samples)), counts)
    position_N = np.concatenate([sample.decisions.position_N for sample in samples]).astype(np.int64)
    token_N = np.concatenate([sample.token_ids[sample.decisions.position_N] for sample in samples]).astype(np.int64)
    temperature_N = np.repeat([sample.decisions.rule.temperature for sample in samples], counts)
    return Batch(
        input_ids=pad_rows(rows, pad_id),
        length_B=torch.tensor([len(row) for row in rows]),
        row_N=torch.from_numpy(row_N),
        column_N=torch.from_numpy(position_N - 1),
        token_N=torch.from_numpy(token_N),
        sample_N=torch.from_numpy(row_N.copy()),
        temperature_N=torch.from_numpy(temperature_N).to(torch.float32),
        supports=collate_supports(samples),
    )


def collate_filled(samples: Sequence[Sample], pad_id: int) -> Batch:
    """Build a batch for a masked model. Rows are the distinct inputs of the samples' forward passes; the output at p
    is the distribution of the token at p.
    """
    if not samples:
        raise PolicyError("cannot collate an empty list of samples; pass at least one")
    row_of: dict[bytes, int] = {}
    rows: list[np.ndarray] = []
    row_N: list[int] = []
    for sample in samples:
        width, own = len(sample.completion_ids), dict[int, int]()
        for forward in sample.decisions.forward_N.tolist():
            if forward not in own:
                row = sample.token_ids[forward * width : (forward + 1) * width]
                own[forward] = row_of.setdefault(row.tobytes(), len(rows))
                rows += [row] * (own[forward] == len(rows))
            row_N.append(own[forward])
    counts = [len(sample.decisions) for sample in samples]
    column_N = np.concatenate([sample.decisions.position_N - sample.prompt_length for sample in samples])
    token_N = np.concatenate([sample.token_ids[sample.decisions.position_N] for sample in samples]).astype(np.int64)
    temperature_N = np.repeat([sample.decisions.rule.temperature for sample in samples], counts)
    return Batch(
        input_ids=pad_rows(rows, pad_id),
        length_B=torch.tensor([len(row) for row in rows]),
        row_N=torch.tensor(row_N),
        column_N=torch.from_numpy(column_N.astype(np.int64)),
        token_N=torch.from_numpy(token_N),
        sample_N=torch.from_numpy(np.repeat(np.arange(len(samples)), counts)),
        temperature_N=torch.from_numpy(temperature_N).to(torch.float32),
        supports=collate_supports(samples),
    )


def collate_supports(samples: Sequence[Sample]) -> Supports | None:
    """Collect the supports of all samples in one table; return None if no decision was restricted."""
    numbers: dict[bytes, int] = {}
    indices: list[np.ndarray] = []
    for sample in samples:
        decisions = sample.decisions
        if decisions.supports_omitted or (decisions.rule.cuts and decisions.supports is None):
            raise PolicyError(
                f"sample {tuple(sample.key)} was drawn with a cut or a constraint but has no supports; "
                "use a sampler that records them, or recompute them with steelyard.training.supports"
            )
        if decisions.support_N is None or decisions.supports is None:
            indices.append(np.full(len(decisions), -1, np.int64))
            continue
        table = decisions.supports
        own = [numbers.setdefault(bits_of(table, i).tobytes(), len(numbers)) for i in range(len(table))]
        indices.append(np.asarray([*own, -1], np.int64)[decisions.support_N])
    if not numbers:
        return None
    bits_UW = np.stack([np.frombuffer(bits, np.uint8) for bits in numbers])
    return Supports(torch.from_numpy(bits_UW), torch.from_numpy(np.concatenate(indices)))
