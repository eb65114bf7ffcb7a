"""Samplers on a fake Ray: which replicas get requests, with which weights, and how a full cluster is handled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from steelyard.cluster import samplers
from steelyard.cluster.samplers import MAX_LOSSES_IN_A_ROW, RaySampler
from steelyard.errors import PolicyError, TrainingError
from steelyard.sampling.base import Decoding, SampleRequest
from steelyard.types import Sample
from tests.tiny import sample_of, tasks
from tests.unit.cluster.fake_ray import FakeRay

RANDOM = "random weights"
REQUESTS = [SampleRequest(task, 0, slot, 2) for slot, task in enumerate(tasks(4))]


class Engine:
    """Labels each sample with the weights it was drawn from; the first ``refusals`` loads by any instance fail."""

    refusals = 0

    def __init__(self) -> None:
        self.weights: Any = RANDOM

    def load(self, weights: Any, version: int) -> None:
        if version and Engine.refusals:
            Engine.refusals -= 1
            raise PolicyError("out of memory while loading the weights")
        self.weights = weights

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        for request in requests:
            for index in range(request.count):
                key = (request.step, request.slot, request.attempt, index)
                yield sample_of([1, 2], key=key, text=str(self.weights))


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    monkeypatch.setattr(samplers, "Connection", fake.connection)
    monkeypatch.setattr(Engine, "refusals", 0)
    return fake


@pytest.fixture
def make(ray: FakeRay) -> Callable[..., RaySampler]:
    weights = iter(range(100))
    return lambda replicas=2: RaySampler(Engine, lambda: [f"weights {next(weights)}"], replicas=replicas)  # type: ignore[arg-type]


Make = Callable[..., RaySampler]


def texts(sampler: RaySampler) -> set[str]:
    samples = list(sampler.sample(REQUESTS, Decoding()))
    assert len({sample.key for sample in samples}) == len(samples) == 8
    return {sample.text for sample in samples}


def test_samples_come_from_the_published_weights(make: Make) -> None:
    sampler = make()
    for version in range(3):
        sampler.publish(version)
        assert texts(sampler) == {f"['weights {version}']"}


def test_a_replacement_that_cannot_load_is_replaced_in_turn(make: Make, ray: FakeRay) -> None:
    """A replacement must never sample from the initial weights of its engine."""
    sampler = make()
    sampler.publish(1)
    Engine.refusals = 3
    for handle in list(ray.handles):
        handle.lost = True
    assert texts(sampler) == {"['weights 0']"}
    assert sampler.lost > 2


def test_replacements_that_never_load_stop_the_run_with_the_reason(make: Make, ray: FakeRay) -> None:
    sampler = make(replicas=1)
    sampler.publish(1)
    Engine.refusals = 1000
    ray.handles[0].lost = True
    with pytest.raises(TrainingError, match=r"in a row.*out of memory while loading the weights"):
        list(sampler.sample(REQUESTS, Decoding()))
    assert len(ray.handles) == MAX_LOSSES_IN_A_ROW + 1


def test_an_engine_that_rejects_the_weights_fails_the_publication(make: Make) -> None:
    sampler = make()
    Engine.refusals = 1
    with pytest.raises(PolicyError, match="out of memory while loading the weights"):
        sampler.publish(1)


def test_a_replacement_without_room_does_not_block_the_others(make: Make, ray: FakeRay) -> None:
    sampler = make()
    sampler.publish(0)
    ray.room, ray.handles[0].lost = 1, True
    for version in (1, 2, 3):
        sampler.publish(version)
        assert texts(sampler) == {f"['weights {version}']"}
    assert sampler.lost == 1


def test_a_late_replacement_starts_with_the_newest_weights(make: Make, ray: FakeRay) -> None:
    sampler = make()
    sampler.publish(0)
    ray.room, ray.handles[0].lost = 1, True
    sampler.publish(1)
    late, other = sampler._replicas
    assert late.loading is not None
    sampler.publish(2)
    samplers_of = ray.remote(samplers.SamplerActor).options()
    ray.room, other.handle.lost = 2, True
    late.handle.actor = samplers_of.remote(Engine).actor
    late.loading = late.handle.load.remote(*late.requested)  # the pending call can complete now
    assert texts(sampler) == {"['weights 2']"}


def test_samplers_without_room_raise_an_error_and_close_everything(make: Make, ray: FakeRay) -> None:
    ray.room = 1
    with pytest.raises(TrainingError, match=r"1 of 2 samplers.*cluster\.samplers\.replicas or verify\.workers"):
        make()
    assert not ray.open
    assert all(handle.lost for handle in ray.handles)


def test_waiting_for_the_last_sampler_times_out(make: Make, ray: FakeRay) -> None:
    sampler = make(replicas=1)
    sampler.publish(0)
    ray.room, ray.handles[0].lost = 0, True
    with pytest.raises(TrainingError, match="no room for 1 of 1 samplers"):
        list(sampler.sample(REQUESTS, Decoding()))
