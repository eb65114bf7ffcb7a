"""How the pool divides a cluster's cores among its actors, leaving enough for the rest of the run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from steelyard import config as configs
from steelyard.cluster.pool import plan_actors
from steelyard.compose.verifiers import reserved_cores


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
