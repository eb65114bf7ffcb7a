"""A learner made of several ranks, each a Ray actor, with the interface of a learner in this process.

Ray places the processes and reports when one dies. Rank 0 publishes the address at which the others join, so
``torchrun`` is not needed. All ranks take part in every optimiser step, so losing one ends the group; a new group
resumes from the last checkpoint.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from steelyard import defaults
from steelyard.checkpoint import Checkpoint
from steelyard.cluster.connection import LOCAL, START_SECONDS, Connection
from steelyard.cluster.rank import BuildLearner, LearnerRank
from steelyard.cluster.ranks import Sharding
from steelyard.errors import CheckpointError, LostLearnerError, SteelyardError, TrainingError
from steelyard.policies.base import Policy
from steelyard.policies.sharding import WeightSelection
from steelyard.tracking import Report, silent
from steelyard.training.learner import SHARDS, CheckpointParts, SampleLogps, UpdateRule
from steelyard.training.learner_samples import LearnerSample
from steelyard.types import Sample

log = logging.getLogger(__name__)

GRACE_SECONDS = 5.0
"""How long to wait for errors from the other ranks after one has failed."""


class RankGroup:
    """Several ranks that act as one learner; subclasses define how the ranks are called.

    ``mirror`` is a policy in this process that samples and computes supports; it receives the weights after every step.
    """

    def __init__(self, rule: UpdateRule, *, kl_in_reward: bool = False, mirror: Policy | None = None) -> None:
        self.rule, self.kl_in_reward, self.mirror = rule, kl_in_reward, mirror

    def call_all(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of :class:`LearnerRank` on all ranks in parallel and return all results."""
        raise NotImplementedError

    def call_first(self, method: str, *arguments: Any) -> Any:
        """Call a method on rank 0 only."""
        raise NotImplementedError

    def put(self, value: Any) -> Any:
        """Prepare an argument that all ranks will read, so that it is serialised once."""
        return value

    def close(self) -> None:
        """End the processes. Closing twice is harmless."""
        raise NotImplementedError

    # --- called by the training loop -----------------------------------------------------------------------------

    def score(self, samples: Sequence[Sample]) -> SampleLogps:
        return self.call_all("score", self.put(list(samples)))[0]

    def update(self, samples: Sequence[LearnerSample], step: int, report: Report = silent) -> dict[str, float]:
        return self.call_all("update", self.put(list(samples)), step)[0]

    def kl_coefficient(self, step: int) -> float:
        return self.call_first("kl_coefficient", step)

    def after_step(self, step: int) -> None:
        self.call_all("after_step", step)
        self._update_mirror()

    # --- weights -------------------------------------------------------------------------------------------------

    def weights(self, which: WeightSelection = "merged") -> Iterator[tuple[str, Tensor]]:
        """Yield unsharded weights by name, layer by layer.

        ``merged`` folds adapters into the base model, as inference engines expect; ``all`` and ``trained`` do not.
        """
        portion = self.call_all("first_portion", which)[0]
        while portion is not None:
            yield from portion
            portion = self.call_all("next_portion")[0]

    @torch.no_grad()
    def _update_mirror(self) -> None:
        if self.mirror is None:
            return
        trained = dict(self.mirror.trainable())
        for name, tensor in self.weights("trained"):
            trained[name].copy_(tensor)

    # --- state ---------------------------------------------------------------------------------------------------

    def checkpoint_parts(self) -> CheckpointParts:
        """Return the checkpoint's parts: a plain model folder, and the ranks' shards of the training state."""
        folders: dict[str, Callable[[Path], object]] = {
            "model": lambda folder: self.call_all("save_model", str(folder.absolute())),
            SHARDS: lambda folder: self.call_all("save_shards", str(folder.absolute())),
        }
        return CheckpointParts(folders, {}, self.call_all("state")[0])

    def restore(self, checkpoint: Checkpoint) -> None:
        """Load a checkpoint that was written by a group of any size."""
        if not checkpoint.has(SHARDS):
            raise CheckpointError(
                f"{checkpoint.path} was written by a single-process learner; resume without [cluster.learners]"
            )
        self.call_all("restore", str(checkpoint.path.absolute()))
        self._update_mirror()


class LearnerGroup(RankGroup):
    """A rank group whose ranks are Ray actors."""

    def __init__(
        self,
        build: BuildLearner,
        rule: UpdateRule,
        *,
        ranks: int,
        kl_in_reward: bool = False,
        sharding: Sharding = defaults.SHARDING,
        offload: bool = False,
        mirror: Policy | None = None,
        address: str = LOCAL,
        gpus: bool = False,
        seconds: float = defaults.LEARNER_TIMEOUT,
    ) -> None:
        super().__init__(rule, kl_in_reward=kl_in_reward, mirror=mirror)
        self._connection = Connection(address)
        self.ray = self._connection.ray
        self._failed: Callable[[], TrainingError] | None = None
        """Creates the error to raise for calls made after the group failed or was closed."""
        paths = [path or str(Path.cwd()) for path in sys.path]
        options = {"num_cpus": 0, "num_gpus": int(gpus), "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        actor = self.ray.remote(LearnerRank).options(**options)
        self._ranks = [actor.remote(paths, str(Path.cwd())) for _ in range(ranks)]
        try:
            self.processes = self._answers([rank.process.remote() for rank in self._ranks], START_SECONDS)
            where = self.call_first("address", self._host())
            settings = {"sharding": sharding, "offload": offload, "seconds": seconds}
            calls = [
                rank.start.remote(build, where, number, ranks, **settings) for number, rank in enumerate(self._ranks)
            ]
            self._answers(calls)
        except BaseException:
            self.close()
            raise

    def _host(self) -> str:
        """Return the address of rank 0's node as known to the cluster; the rank itself does not use Ray."""
        find = self.ray.util.get_node_ip_address
        return self._answers([self._ranks[0].__ray_call__.remote(lambda _: find())])[0]

    def close(self) -> None:
        if self._connection.open:
            for rank in self._ranks:
                with suppress(self.ray.exceptions.RayError):
                    self.ray.kill(rank)
        self._failed = self._failed or _group_failed(LostLearnerError, "it was closed")
        self._connection.close()

    # --- calls ---------------------------------------------------------------------------------------------------

    def call_all(self, method: str, *arguments: Any) -> list[Any]:
        self._require_running()
        return self._answers([getattr(rank, method).remote(*arguments) for rank in self._ranks])

    def put(self, value: Any) -> Any:
        return self.ray.put(value)

    def call_first(self, method: str, *arguments: Any) -> Any:
        self._require_running()
        return self._answers([getattr(self._ranks[0], method).remote(*arguments)])[0]

    def _answers(self, calls: list[Any], timeout: float | None = None) -> list[Any]:
        waiting = list(calls)
        while waiting:
            done, waiting = self.ray.wait(waiting, num_returns=1, timeout=timeout)
            if not done:
                self._end(
                    LostLearnerError,
                    f"the cluster had no room for {len(waiting)} of {len(calls)} ranks within {timeout:.0f} s. Check "
                    "`ray status` for what is in use, or lower cluster.learners.ranks",
                )
            if self._failure(done[0]) is not None:
                self._raise_failure(calls)
        return self.ray.get(calls)

    def _failure(self, call: Any) -> Exception | None:
        try:
            self.ray.get(call, timeout=0)
        except self.ray.exceptions.RayError as error:
            return error
        return None

    def _raise_failure(self, calls: list[Any]) -> None:
        """Raise one error for the group. A dead rank is the cause; lost connections are a consequence."""
        self.ray.wait(calls, num_returns=len(calls), timeout=GRACE_SECONDS)
        done, _ = self.ray.wait(calls, num_returns=len(calls), timeout=0)
        failures = {calls.index(call): error for call in done if (error := self._failure(call)) is not None}
        for rank, error in failures.items():
            if not isinstance(error, self.ray.exceptions.RayTaskError):
                self._end(LostLearnerError, f"rank {rank} was lost ({str(error).strip().splitlines()[0]})")
        causes = {rank: getattr(error, "cause", error) for rank, error in failures.items()}
        for rank, cause in causes.items():
            if isinstance(cause, SteelyardError):
                self._failed = _group_failed(TrainingError, str(cause))
                self.close()
                raise cause
            if not _may_follow_a_loss(cause):
                self._end(TrainingError, f"rank {rank} failed: {cause!r}")
        rank, cause = next(iter(causes.items()))
        self._end(LostLearnerError, f"rank {rank} failed: {cause!r}")

    def _end(self, kind: type[TrainingError], reason: str) -> NoReturn:
        self._failed = _group_failed(kind, reason)
        self.close()
        raise self._failed()

    def _require_running(self) -> None:
        if self._failed is not None:
            raise self._failed()


def _group_failed(kind: type[TrainingError], reason: str) -> Callable[[], TrainingError]:
    return lambda: kind(
        f"the learner group has stopped: {reason}. The other ranks cannot continue without it; resume the run from its "
        "last checkpoint"
    )


def _may_follow_a_loss(cause: Exception) -> bool:
    """Return whether a rank may have failed because another was lost; in that case torch raises one of these errors."""
    return isinstance(cause, RuntimeError | OSError) and not isinstance(cause, torch.OutOfMemoryError)
