"""Episodes on several replicas, on a fake Ray whose actors run in threads; tests/faults uses the real Ray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from steelyard.cluster import samplers
from steelyard.cluster.samplers import RaySampler
from steelyard.errors import PolicyError
from steelyard.sampling.base import Decoding, SampleRequest, TurnQueue
from steelyard.sampling.local import LocalSampler
from steelyard.types import Sample, SampleKey
from tests.scripted_episodes import Script, Turns, play
from tests.tiny import tasks, tiny_policy
from tests.unit.cluster.fake_ray import FakeRay

DECODING = Decoding(max_new_tokens=5)
REQUESTS = [SampleRequest(task, 0, slot, 3) for slot, task in enumerate(tasks(4))]


class Replica(LocalSampler):
    """A local sampler that records the episode of every turn it samples."""

    made: list[Replica] = []  # noqa: RUF012 - cleared for every test

    def __init__(self) -> None:
        super().__init__(tiny_policy(sharpness=3.0), seed=0, max_rows=64)
        self.turns_of: list[SampleKey] = []
        Replica.made.append(self)

    def load(self, weights: Any, version: int) -> None:
        self.publish(version)

    def sample_turns(
        self, requests: Sequence[SampleRequest], decoding: Decoding, turns: TurnQueue
    ) -> Iterator[Sample | None]:
        if any(request.task.id == "bad" for request in requests):
            raise PolicyError("this cannot be sampled")
        for sample in super().sample_turns(requests, decoding, turns):
            if sample is not None:
                self.turns_of.append(sample.key)
            yield sample


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay(threads=True)
    monkeypatch.setattr(samplers, "Connection", fake.connection)
    Replica.made.clear()
    return fake


@pytest.fixture
def sampler(ray: FakeRay) -> RaySampler:
    made = RaySampler(Replica, list, replicas=2)
    made.publish(3)
    return made


@pytest.fixture(scope="module")
def expected() -> dict[SampleKey, list[list[int]]]:
    return ids(play(LocalSampler(tiny_policy(sharpness=3.0), seed=0), REQUESTS, DECODING))


def ids(played: Turns) -> dict[SampleKey, list[list[int]]]:
    return {key: [turn.token_ids.tolist() for turn in turns] for key, turns in played.items()}


def test_an_episode_stays_on_its_replica(sampler: RaySampler, expected: dict[SampleKey, Any]) -> None:
    played = play(sampler, REQUESTS, DECODING, delays=np.random.default_rng(0))
    assert ids(played) == expected
    assert {turn.policy_version for turns in played.values() for turn in turns} == {3}
    one, other = ({*replica.turns_of} for replica in Replica.made)
    assert one
    assert other
    assert not one & other
    assert ids(play(sampler, REQUESTS, DECODING)) == expected, "the replicas are free again"


def test_episodes_of_a_lost_replica_continue_on_another(
    sampler: RaySampler, ray: FakeRay, expected: dict[SampleKey, Any]
) -> None:
    class Losing(Script):
        def reply(self, key: SampleKey, written: int) -> list[int] | None:
            if key == (0, 1, 0, 2) and written == 2:
                ray.handles[0].lost = True
            return super().reply(key, written)

    assert ids(play(sampler, REQUESTS, DECODING, script=Losing())) == expected
    assert sampler.lost == 1


def test_an_engine_error_is_raised_unchanged(sampler: RaySampler) -> None:
    bad = SampleRequest(tasks(1)[0].__class__("bad", "0"), 0, 0, 2)
    with pytest.raises(PolicyError, match="this cannot be sampled"):
        play(sampler, [bad], DECODING)


def test_closing_a_stream_ends_the_calls_of_the_replicas(sampler: RaySampler, ray: FakeRay) -> None:
    stream = sampler.sample_turns(REQUESTS, DECODING, TurnQueue())
    while next(stream) is None:
        pass
    stream.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert len(play(sampler, REQUESTS, DECODING)) == 12
