"""The learner's view of samples: padded rows, and decisions in one flat list.

Decisions are flat (``N`` of them) and say which row and column of the forward pass they were drawn from, so causal
text and fill-in traces of several forward passes share one layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from steelyard.errors import PolicyError
from steelyard.types import Sample


@dataclass(frozen=True, slots=True)
class Supports:
    """What could have been drawn at each decision, as a table of explicit sets; ``index_N`` is -1 for "everything"."""

    start: Tensor
    token: Tensor
    index_N: Tensor

    def blocked(self, rows: slice, vocabulary: int) -> Tensor:
        """Mask ``[C, V]``, true where a token could not have been drawn."""
        index_C = self.index_N[rows]
        restricted_C = index_C >= 0
        blocked_CV = restricted_C[:, None].expand(-1, vocabulary).clone()
        safe_C = index_C.clamp(min=0)
        length_C = (self.start[safe_C + 1] - self.start[safe_C]) * restricted_C
        row = torch.repeat_interleave(torch.arange(len(index_C), device=index_C.device), length_C)
        first_C = torch.cumsum(length_C, 0) - length_C
        within = torch.arange(len(row), device=row.device) - first_C[row]
        blocked_CV[row, self.token[self.start[safe_C][row] + within]] = False
        return blocked_CV

    def to(self, device: torch.device) -> Supports:
        return Supports(self.start.to(device), self.token.to(device), self.index_N.to(device))


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows to run through the model and the decisions to score on them."""

    input_ids: Tensor
    """``[B, T]``, padded on the right: a causal model needs no attention mask for that."""
    length_B: Tensor
    row_N: Tensor
    column_N: Tensor
    """Where in its row the distribution of the decision is read off."""
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
    """Stack rows of different length into ``[B, T]``, padded with ``fill``."""
    width = max(len(row) for row in rows)
    padded = np.full((len(rows), width), fill, dtype=np.int64)
    for place, row in zip(padded, rows, strict=True):
        place[slice(width - len(row), None) if left else slice(len(row))] = row
    return torch.from_numpy(padded)


def collate_causal(samples: Sequence[Sample], pad_id: int) -> Batch:
    """Rows of a causal model: the distribution of the token at position p is read off at p - 1."""
    if not samples:
        raise PolicyError("cannot collate an empty list of samples")
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


def collate_supports(samples: Sequence[Sample]) -> Supports | None:
    """The explicit supports of all samples in one table, or None when every decision had the whole vocabulary."""
    starts, tokens, indices = [np.zeros(1, np.int64)], [], []
    tables = filled = 0
    for sample in samples:
        decisions = sample.decisions
        if decisions.support_N is None or decisions.supports is None:
            if decisions.rule.cuts:
                raise PolicyError(
                    f"sample {tuple(sample.key)} was cut by {decisions.rule} but carries no supports; "
                    "use a sampler that records them"
                )
            indices.append(np.full(len(decisions), -1, np.int64))
            continue
        table = decisions.supports
        indices.append(np.where(decisions.support_N < 0, -1, decisions.support_N + tables).astype(np.int64))
        starts.append(table.start[1:].astype(np.int64) + filled)
        tokens.append(table.token.astype(np.int64))
        tables += len(table)
        filled += len(table.token)
    if not tokens:
        return None
    as_tensor = [torch.from_numpy(np.concatenate(part)) for part in (starts, tokens, indices)]
    return Supports(*as_tensor)
