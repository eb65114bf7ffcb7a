"""One rank of a learner group: a process with its part of the learner. This module does not depend on Ray."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

from steelyard import defaults
from steelyard.checkpoint import open_checkpoint
from steelyard.checkpoint.shards import load_shards, names_in, save_shards
from steelyard.cluster.ranks import GroupRanks, Sharding, join_group, leave_group
from steelyard.policies.sharding import Named, WeightSelection, portions
from steelyard.quiet import quiet_engines
from steelyard.training.learner import SHARDS, Learner, SampleLogps
from steelyard.training.learner_samples import LearnerSample
from steelyard.training.ranks import Ranks
from steelyard.training.shard_adamw import state_by_name
from steelyard.types import Sample

BuildLearner = Callable[[Ranks], Learner]
"""Builds the learner of a rank. The function must pass the ranks to ``build_learner`` before an optimiser is
created."""


class LearnerRank:
    """The methods that a group calls on its ranks: on all ranks at the same time, unless stated otherwise."""

    def __init__(self, paths: Sequence[str] = (), folder: str | None = None) -> None:
        sys.path.extend(path for path in paths if path not in sys.path)
        if folder is not None and Path(folder).is_dir():
            os.chdir(folder)
        self._walk: Iterator[Named] = iter(())

    def process(self) -> int:
        """Return the process id; the call returns once the rank is running."""
        return os.getpid()

    def address(self, host: str = "127.0.0.1") -> str:
        """Return ``host:port`` with a free port, at which the other ranks can join. Called on rank 0 only."""
        with socket.create_server(("", 0)) as server:
            return f"{host}:{server.getsockname()[1]}"

    def start(
        self,
        build: BuildLearner,
        address: str,
        rank: int,
        size: int,
        *,
        sharding: Sharding = defaults.SHARDING,
        offload: bool = False,
        seconds: float = defaults.LEARNER_TIMEOUT,
    ) -> None:
        join_group(address, rank, size, seconds=seconds)
        self.ranks = GroupRanks(sharding, offload=offload)
        self.learner = build(self.ranks)

    # --- learning ------------------------------------------------------------------------------------------------

    def score(self, samples: Sequence[Sample]) -> SampleLogps | None:
        """Compute log-probs. All ranks compute the same result, but only rank 0 returns it."""
        return self._first(self.learner.score(samples))

    def update(self, samples: Sequence[LearnerSample], step: int) -> dict[str, float] | None:
        return self._first(self.learner.update(samples, step))

    def after_step(self, step: int) -> None:
        self.learner.after_step(step)

    def kl_coefficient(self, step: int) -> float:
        """Return the current KL coefficient. Called on rank 0 only."""
        return self.learner.kl_coefficient(step)

    # --- weights -------------------------------------------------------------------------------------------------

    def first_portion(self, which: WeightSelection) -> Named | None:
        """Start iterating over the weights and return the first portion, or None if there are no weights.

        Only rank 0 returns tensors.
        """
        self._walk = portions(self.learner.policy, which, wanted=self.ranks.rank == 0)
        return self.next_portion()

    def next_portion(self) -> Named | None:
        return next(self._walk, None)

    # --- state ---------------------------------------------------------------------------------------------------

    def save_shards(self, folder: str) -> None:
        """Save this rank's part of the trained weights, optimiser state and reference, at full precision."""
        save_shards(Path(folder), self._tensors())

    def save_model(self, folder: str) -> None:
        """Write an ordinary transformers (or PEFT) folder; only rank 0 writes."""
        policy, first = self.learner.policy, self.ranks.rank == 0
        which = "all" if policy.base is policy.model else "trained"
        kept: dict[str, Tensor] = {}
        for portion in portions(policy, which, wanted=first):
            kept.update(portion)
        if first:
            with quiet_engines():
                policy.save_pretrained(Path(folder), kept)

    def state(self) -> dict[str, Any]:
        learner = self.learner
        return {"learner": learner.state_dict(), "reference": learner.reference_fingerprint()}

    def restore(self, path: str) -> None:
        """Load a checkpoint that was written by any number of ranks."""
        checkpoint, learner = open_checkpoint(Path(path)), self.learner
        learner.require_fit(checkpoint)
        folder = checkpoint.folder(SHARDS)
        learner.optimiser.state.clear()
        if any(name.startswith("optimiser.") for name in names_in(folder)):
            get_optimizer_state_dict(learner.policy.model, learner.optimiser)  # allocates the state to load into
        load_shards(folder, self._tensors())
        learner.load_state_dict(checkpoint.state["learner"])

    def close(self) -> None:
        leave_group()

    def _tensors(self) -> dict[str, Tensor]:
        learner = self.learner
        named = dict(learner.policy.trainable())
        tensors: dict[str, Tensor] = {f"model.{name}": weight for name, weight in named.items()}
        tensors |= {f"optimiser.{key}": value for key, value in state_by_name(named, learner.optimiser).items()}
        if learner.reference is not None:
            tensors |= {f"reference.{key}": value for key, value in learner.reference.tensors().items()}
        return tensors

    def _first(self, answer: Any) -> Any:
        return answer if self.ranks.rank == 0 else None
