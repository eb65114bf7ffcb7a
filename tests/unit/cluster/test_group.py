"""A learner group on a fake Ray: the address at which its ranks join, and which failures count as a lost rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from steelyard.cluster import learners
from steelyard.cluster.learners import LearnerGroup
from steelyard.cluster.rank import LearnerRank
from steelyard.errors import LostLearnerError, PolicyError, TrainingError
from steelyard.training.learner import UpdateRule
from tests.unit.cluster.fake_ray import FakeRay


class Rank(LearnerRank):
    """A rank that joins no process group and whose ``score`` the test provides."""

    def start(self, build: Any, address: str, rank: int, size: int, **_settings: Any) -> None:  # type: ignore[override]
        self.where, self.number, self.build = address, rank, build

    def score(self, samples: Any) -> Any:
        return self.build(self.number)


Make = Callable[..., LearnerGroup]


@pytest.fixture
def ray() -> FakeRay:
    return FakeRay()


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch, ray: FakeRay) -> Make:
    monkeypatch.setattr(learners, "Connection", ray.connection)
    monkeypatch.setattr(learners, "LearnerRank", Rank)

    def make(score: Callable[[int], Any] = lambda number: number) -> LearnerGroup:
        return LearnerGroup(score, UpdateRule(), ranks=3)  # type: ignore[arg-type]

    return make


def test_all_ranks_join_at_the_cluster_address_of_rank_0(group: Make, ray: FakeRay) -> None:
    group()
    addresses = {handle.actor.where for handle in ray.handles}
    assert len(addresses) == 1
    host, port = addresses.pop().split(":")
    assert host == "10.0.0.7"
    assert int(port) > 0


def raises(**errors: Exception) -> Callable[[int], int]:
    def score(number: int) -> int:
        if f"r{number}" in errors:
            raise errors[f"r{number}"]
        return number

    return score


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError("Connection closed by peer [10.0.0.8]:1234"), LostLearnerError),
        (torch.distributed.DistNetworkError("the store is gone"), LostLearnerError),
        (ConnectionResetError("reset"), LostLearnerError),
        (torch.OutOfMemoryError("CUDA out of memory"), TrainingError),
        (KeyError("a plain bug"), TrainingError),
        (PolicyError("this policy cannot"), PolicyError),
    ],
)
def test_only_connection_errors_count_as_a_lost_rank(group: Make, error: Exception, kind: type[Exception]) -> None:
    learner_group = group(raises(r1=error))
    with pytest.raises(kind) as caught:
        learner_group.score([])
    assert type(caught.value) is kind
    assert str(error.args[0]) in str(caught.value)
    with pytest.raises(TrainingError, match="the learner group has stopped"):
        learner_group.score([])


def test_the_cause_is_reported_and_not_the_connections_that_it_broke(group: Make) -> None:
    learner_group = group(raises(r0=RuntimeError("Connection closed by peer"), r2=ValueError("the cause")))
    with pytest.raises(TrainingError, match=r"rank 2 failed: ValueError\('the cause'\)") as caught:
        learner_group.score([])
    assert not isinstance(caught.value, LostLearnerError)


def test_a_dead_rank_is_reported_before_any_other_failure(group: Make, ray: FakeRay) -> None:
    learner_group = group(raises(r0=ValueError("the consequence")))
    ray.handles[2].lost = True
    with pytest.raises(LostLearnerError, match="rank 2 was lost"):
        learner_group.score([])


def test_too_small_a_cluster_is_an_error_that_names_the_key(group: Make, ray: FakeRay) -> None:
    ray.room = 1
    with pytest.raises(LostLearnerError, match=r"no room for 2 of 3 ranks.*cluster\.learners\.ranks"):
        group()
    assert not ray.open
