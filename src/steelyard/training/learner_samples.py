"""The samples of an update, and their division into minibatches and microbatches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from steelyard.training.sample_files import Arrays, Row, pack_sample, read_rows, unpack_sample, write_rows
from steelyard.types import Sample

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class LearnerSample:
    """A sample with the values that the loss needs for each decision."""

    sample: Sample
    advantage_N: Array
    old_logp_N: Array | None = None
    reference_logp_N: Array | None = None
    number: int | None = None
    """Number of the sample in its step. The rows of an episode have the same number, because they count as one
    sample."""


def sample_labels(samples: Sequence[LearnerSample]) -> NDArray[np.int64]:
    """Return the sample index of each row, numbered from 0 in order of appearance."""
    labels: dict[object, int] = {}
    return np.asarray(
        [
            labels.setdefault(("own", place) if item.number is None else item.number, len(labels))
            for place, item in enumerate(samples)
        ]
    )


def minibatches(
    samples: Sequence[LearnerSample], count: int, epochs: int, seed: Sequence[int]
) -> Iterator[list[LearnerSample]]:
    """Yield ``count`` minibatches with about as many samples each per epoch, shuffled by (seed, epoch).

    A single minibatch is not shuffled. The rows of an episode stay together.
    """
    rows_of: dict[int, list[LearnerSample]] = {}
    for label, item in zip(sample_labels(samples).tolist(), samples, strict=True):
        rows_of.setdefault(label, []).append(item)
    for epoch in range(epochs):
        order = np.arange(len(rows_of))
        if count > 1:
            order = np.random.default_rng([*seed, epoch]).permutation(len(rows_of))
        for part in np.array_split(order, min(count, len(rows_of))):
            yield [row for label in part for row in rows_of[int(label)]]


def by_length(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Divide indices into batches of at most ``tokens`` padded tokens, or of a single row, with the longest rows first.

    Rows of similar length share a batch, which reduces padding. The first batch is the largest, so memory runs out
    immediately or not at all.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def concatenate(arrays: Sequence[Array], device: torch.device) -> torch.Tensor:
    """Concatenate arrays into one tensor on the device."""
    return torch.from_numpy(np.concatenate(arrays)).to(device)


def save_samples(folder: Path, samples: Sequence[LearnerSample], note: dict[str, Any]) -> None:
    """Write a batch for inspection or for ``load_samples``. An episode is written as one item per row."""
    rows: list[Row] = []
    packed: list[Arrays] = []
    for item in samples:
        row, arrays = pack_sample(replace(item.sample, earlier_rows=()))
        row["number"] = item.number
        values = {"advantage": item.advantage_N, "old_logp": item.old_logp_N, "reference_logp": item.reference_logp_N}
        rows.append(row | {"number": item.number})
        packed.append(arrays | {name: array for name, array in values.items() if array is not None})
    write_rows(folder, "samples", {"note": note, "samples": rows}, packed)


def load_samples(folder: Path) -> list[LearnerSample]:
    """Read a batch written by ``save_samples``."""
    table, packed = read_rows(folder, "samples")
    return [
        LearnerSample(
            unpack_sample(row, arrays),
            arrays["advantage"],
            arrays.get("old_logp"),
            arrays.get("reference_logp"),
            row.get("number"),
        )
        for row, arrays in zip(table["samples"], packed, strict=True)
    ]
