"""What an update learns from, and how it is divided into minibatches and microbatches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from steelyard.types import CutRule, Decisions, Sample, SampleKey, SupportTable

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class LearnerSample:
    """A sample with everything the loss needs at each of its decisions."""

    sample: Sample
    advantage_N: Array
    old_logp_N: Array | None = None
    reference_logp_N: Array | None = None


def minibatches(
    samples: Sequence[LearnerSample], count: int, epochs: int, seed: Sequence[int]
) -> Iterator[list[LearnerSample]]:
    """Per epoch, ``count`` parts of about equal size in an order keyed by (seed, epoch); one part keeps its order."""
    for epoch in range(epochs):
        order = np.arange(len(samples))
        if count > 1:
            order = np.random.default_rng([*seed, epoch]).permutation(len(samples))
        for part in np.array_split(order, min(count, len(samples))):
            yield [samples[index] for index in part]


def by_length(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Indices in batches of at most ``tokens`` padded tokens (or one row), the longest first.

    Rows of similar length stand together, so little is padded, and the first batch shows whether memory suffices.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def stack(arrays: Sequence[Array], device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.concatenate(arrays)).to(device)


def save_samples(folder: Path, samples: Sequence[LearnerSample], note: dict[str, Any]) -> None:
    """Write a batch so that it can be looked at and run again (``load_samples``); no pickle."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, np.ndarray] = {}
    rows: list[dict[str, Any]] = []
    for number, item in enumerate(samples):
        sample, decisions = item.sample, item.sample.decisions
        own = {
            "token_ids": sample.token_ids,
            "position": decisions.position_N,
            "forward": decisions.forward_N,
            "logp": decisions.logp_N,
            "start": decisions.start_N,
            "support": decisions.support_N,
            **{f"support_{name}": getattr(decisions.supports, name, None) for name in ("form", "start", "data")},
            "advantage": item.advantage_N,
            "old_logp": item.old_logp_N,
            "reference_logp": item.reference_logp_N,
        }
        arrays |= {f"{number}.{name}": array for name, array in own.items() if array is not None}
        rule = decisions.rule
        rows.append(
            {
                "key": list(sample.key),
                "prompt_length": sample.prompt_length,
                "text": sample.text,
                "finish": sample.finish,
                "policy_version": sample.policy_version,
                "rule": [rule.temperature, rule.top_k, rule.top_p, rule.min_p],
                "vocabulary": None if decisions.supports is None else decisions.supports.vocabulary,
            }
        )
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, folder / "samples.safetensors")
    (folder / "samples.json").write_text(json.dumps({"note": note, "samples": rows}, indent=1), encoding="utf-8")


def load_samples(folder: Path) -> list[LearnerSample]:
    """Read back what ``save_samples`` wrote."""
    arrays = load_file(folder / "samples.safetensors")
    rows = json.loads((folder / "samples.json").read_text(encoding="utf-8"))["samples"]
    return [_sample(row, number, arrays) for number, row in enumerate(rows)]


def _sample(row: dict[str, Any], number: int, arrays: dict[str, np.ndarray]) -> LearnerSample:
    def own(name: str) -> Any:
        return arrays.get(f"{number}.{name}")

    vocabulary = row.pop("vocabulary")
    stored = (own(f"support_{name}") for name in ("form", "start", "data"))
    decisions = Decisions(
        own("position"),
        own("forward"),
        own("logp"),
        CutRule(*row.pop("rule")),
        own("support"),
        None if vocabulary is None else SupportTable(vocabulary, *stored),
        start_N=own("start"),
    )
    key = SampleKey(*row.pop("key"))
    sample = Sample(key=key, token_ids=own("token_ids"), decisions=decisions, **row)
    return LearnerSample(sample, own("advantage"), own("old_logp"), own("reference_logp"))
