"""How the pool divides a cluster's cores among its actors, and which actor gets the calls of an episode."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from steelyard import config as configs
from steelyard.cluster import pool as pools
from steelyard.cluster.pool import RayPool, plan_actors
from steelyard.compose.verifiers import reserved_cores
from steelyard.environments import EnvironmentVerifier
from steelyard.types import Reply, SampleKey, Verdict
from tests.unit.cluster.fake_ray import FakeRay
from tests.unit.environments.test_running import Counting, episode


@pytest.mark.parametrize(
    ("nodes", "kept", "shares", "expected"),
    [
        ([8], [], 1, (1, 8, 8.0)),
        ([8, 4], [], 1, (3, 4, 4.0)),
        ([9, 4], [], 1, (3, 4, 4.0)),
        ([32, 32, 32, 32], [4.0] * 4 + [1.0] * 8, 1, (4, 26, 26.0)),
        ([4, 64, 64], [4.0] * 4, 1, (29, 4, 4.0)),
        ([8], [4.0, 4.0], 1, (1, 1, 0.0)),
        ([8], [4.0, 4.0, 4.0], 1, (1, 1, 0.0)),
        ([4], [0.5, 1.0, 1.0], 1, (1, 1, 1.0)),
        ([2], [], 3, (1, 1, 2 / 3)),
        ([4, 4, 4, 4], [], 3, (1, 4, 4.0)),
        ([], [], 1, (1, 1, 1.0)),
        ([0], [4.0], 2, (1, 1, 0.5)),
    ],
)
def test_cores_that_the_rest_of_the_run_needs_are_left_free(
    nodes: Sequence[float], kept: Sequence[float], shares: int, expected: tuple[int, int, float]
) -> None:
    count, workers, cores = plan_actors(nodes, kept, None, None, shares)
    assert (count, workers, cores) == expected
    assert count * cores * shares <= max(sum(nodes) - sum(kept), 0 if sum(nodes) else 1)


@pytest.mark.parametrize(
    ("workers", "per_actor", "expected"), [(8, None, (1, 8, 8.0)), (6, 4, (2, 4, 4.0)), (20, None, (3, 8, 8.0))]
)
def test_an_explicit_number_of_workers_is_requested_as_given(
    workers: int, per_actor: int | None, expected: tuple[int, int, float]
) -> None:
    assert plan_actors([8, 8], [8.0], workers, per_actor, 1) == expected


def test_samplers_and_learner_ranks_keep_their_cores() -> None:
    cluster = configs.ClusterConfig.model_validate({"samplers": {"replicas": 2, "cpus": 4.0}, "learners": {"ranks": 3}})
    assert reserved_cores(cluster) == [4.0, 4.0, 1.0, 1.0, 1.0]
    assert reserved_cores(configs.ClusterConfig()) == []


class Replying:
    """An actor that replies to every item and records the samples it received."""

    def __init__(self, *_: Any) -> None:
        self.seen: list[SampleKey] = []

    def process(self) -> int:
        return id(self)

    def verify(self, chunk: Any) -> str:
        keys = [item.sample.key for items in chunk for item in items]
        self.seen += keys
        reply = Verdict.continues(Reply.text("more")).to_json()
        return json.dumps({"verdicts": [(key, reply) for key in keys], "counts": {}})


def test_the_calls_of_an_episode_go_to_the_actor_with_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay()
    monkeypatch.setattr(pools, "Connection", ray.connection)
    monkeypatch.setattr(pools, "VerifierActor", Replying)
    pool, chance = RayPool(EnvironmentVerifier(Counting()), workers=2, workers_per_actor=1), random.Random(0)

    def turn() -> list[set[SampleKey]]:
        """Write a turn in eight episodes, in random order, and return the episodes that each actor received."""
        numbers = chance.sample(range(8), 8)
        pool.submit([episode("1", "more", "1", key=SampleKey(0, number, 0, 0)) for number in numbers])
        assert len(list(pool.completed(wait=True))) == 8
        found = [set(handle.actor.seen) for handle in ray.handles]
        for handle in ray.handles:
            handle.actor.seen.clear()
        return found

    try:
        first = turn()
        assert all(first), "both actors have sessions"
        assert [turn() for _ in range(5)] == [first] * 5
        ray.handles[0].lost = True
        assert turn()[1] >= first[1], "sessions of the other actor stay there"
        again = turn()
        assert not again[0]
        assert again[1] | again[2] == first[0] | first[1]
    finally:
        pool.close()
