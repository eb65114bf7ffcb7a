"""Samplers on a real Ray cluster: samples arrive once, weights reach all replicas, and killed replicas are replaced."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("ray")

from steelyard.cluster.samplers import RaySampler, _split
from steelyard.errors import PolicyError, TrainingError
from steelyard.sampling.base import Decoding, SampleRequest, TurnQueue
from steelyard.sampling.local import LocalSampler
from steelyard.types import Sample, SampleKey
from tests.scripted_episodes import Script, play
from tests.tiny import tasks, tiny_policy

DECODING = Decoding(max_new_tokens=6)
REFUSED = 666
"""A version of the weights that new samplers fail to load; samplers with an earlier published version accept it."""


class LoadedSampler(LocalSampler):
    """A local sampler with its own policy, which loads the published weights."""

    def load(self, weights: Sequence[tuple[str, torch.Tensor]], version: int) -> None:
        if version == REFUSED and self.version == 0:
            raise PolicyError("out of memory while loading the weights")
        named = dict(self.policy.model.named_parameters())
        with torch.no_grad():
            for name, tensor in weights:
                named[name].copy_(tensor)
        self.publish(version)

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        if any(request.task.id == "bad" for request in requests):
            raise PolicyError("this cannot be sampled")
        yield from super().sample(requests, decoding)

    def sample_turns(
        self, requests: Sequence[SampleRequest], decoding: Decoding, turns: TurnQueue
    ) -> Iterator[Sample | None]:
        if any(request.task.id == "bad" for request in requests):
            raise PolicyError("this cannot be sampled")
        yield from super().sample_turns(requests, decoding, turns)


def engine() -> LoadedSampler:
    return LoadedSampler(tiny_policy(), seed=0, max_rows=4)


@pytest.fixture(scope="module")
def policy() -> Any:
    return tiny_policy()


@pytest.fixture(scope="module")
def sampler(policy: Any) -> Iterator[RaySampler]:
    sampler = RaySampler(partial(engine), lambda: list(policy.model.named_parameters()), replicas=2, cpus=0.1)
    yield sampler
    sampler.close()


def ids_of(turns: Sequence[Sample]) -> list[list[int]]:
    return [turn.token_ids.tolist() for turn in turns]


def requests_for_step(step: int, count: int = 4) -> list[SampleRequest]:
    return [SampleRequest(task, step, slot, count) for slot, task in enumerate(tasks(5))]


def test_every_requested_sample_is_delivered_once(sampler: RaySampler, policy: Any) -> None:
    sampler.publish(3)
    samples = list(sampler.sample(requests_for_step(0), DECODING))
    keys = [tuple(sample.key) for sample in samples]
    assert sorted(keys) == [(0, slot, 0, index) for slot in range(5) for index in range(4)]
    assert {sample.policy_version for sample in samples} == {3}
    alone = LocalSampler(policy, seed=0, max_rows=4)
    local = {sample.key: sample.text for sample in alone.sample(requests_for_step(0), DECODING)}
    assert sum(local[sample.key] == sample.text for sample in samples) >= 18, "the same draws from the same weights"


def test_published_weights_reach_every_replica(sampler: RaySampler, policy: Any) -> None:
    before = {sample.key: sample for sample in sampler.sample(requests_for_step(1), DECODING)}
    with torch.no_grad():
        policy.model.lm_head.weight.mul_(3.0)
    sampler.publish(4)
    after = list(sampler.sample(requests_for_step(1), DECODING))
    policy.train(False)
    batch = policy.collate(after)
    new = policy.evaluate(batch).logp_N.detach().numpy()
    recorded = [logp for sample in after for logp in sample.decisions.logp_N]
    assert abs(new - recorded).max() < 1e-4
    assert {sample.policy_version for sample in after} == {4}
    assert any(before[sample.key].text != sample.text for sample in after)


def test_a_killed_replica_is_replaced_and_its_work_redone(sampler: RaySampler) -> None:
    sampler.publish(5)
    processes = sampler.processes()
    stream = sampler.sample(requests_for_step(2, count=16), DECODING)
    samples = [next(stream)]
    for process in processes:
        os.kill(process, signal.SIGKILL)
    samples += list(stream)
    keys = [tuple(sample.key) for sample in samples]
    assert sorted(keys) == [(2, slot, 0, index) for slot in range(5) for index in range(16)]
    assert {sample.policy_version for sample in samples} == {5}, "replacements have the newest weights"
    assert sampler.lost >= 2
    assert not set(processes) & set(sampler.processes())


def test_a_replica_killed_between_steps_is_replaced_in_the_next(sampler: RaySampler) -> None:
    os.kill(sampler.processes()[0], signal.SIGKILL)
    sampler.publish(6)
    samples = list(sampler.sample(requests_for_step(3), DECODING))
    assert len(samples) == 20
    assert {sample.policy_version for sample in samples} == {6}


def test_an_engine_error_is_raised_unchanged(sampler: RaySampler) -> None:
    bad = SampleRequest(tasks(1)[0].__class__("bad", "0"), 4, 0, 2)
    with pytest.raises(PolicyError, match="this cannot be sampled"):
        list(sampler.sample([bad], DECODING))
    assert len(list(sampler.sample(requests_for_step(5), DECODING))) == 20, "the sampler still works"


def test_episodes_stay_on_their_replica_and_equal_local_ones(sampler: RaySampler, policy: Any) -> None:
    sampler.publish(8)
    expected = play(LocalSampler(policy, seed=0, max_rows=64), requests_for_step(0), DECODING)
    found = play(sampler, requests_for_step(0), DECODING, delays=np.random.default_rng(0))
    assert {key: ids_of(turns) for key, turns in found.items()} == {
        key: ids_of(turns) for key, turns in expected.items()
    }
    assert {turn.policy_version for turns in found.values() for turn in turns} == {8}
    again = play(sampler, requests_for_step(0)[:1], DECODING)
    assert all(ids_of(turns) == ids_of(expected[key]) for key, turns in again.items())


def test_episodes_of_a_lost_replica_continue_elsewhere(sampler: RaySampler, policy: Any) -> None:
    """All replicas are killed while episodes wait for replies and others are being sampled."""
    sampler.publish(9)
    expected = play(LocalSampler(policy, seed=0, max_rows=64), requests_for_step(0, count=8), DECODING)
    before, processes = sampler.lost, sampler.processes()

    class Killing(Script):
        def reply(self, key: SampleKey, written: int) -> list[int] | None:
            if key == (0, 1, 0, 5) and written == 2:
                for process in processes:
                    os.kill(process, signal.SIGKILL)
            return super().reply(key, written)

    found = play(sampler, requests_for_step(0, count=8), DECODING, script=Killing())
    assert {key: ids_of(turns) for key, turns in found.items()} == {
        key: ids_of(turns) for key, turns in expected.items()
    }
    assert sampler.lost >= before + 2


def test_an_engine_error_within_an_episode_is_raised_unchanged(sampler: RaySampler) -> None:
    bad = SampleRequest(tasks(1)[0].__class__("bad", "0"), 4, 0, 2)
    with pytest.raises(PolicyError, match="this cannot be sampled"):
        play(sampler, [bad], DECODING)
    assert len(play(sampler, requests_for_step(5), DECODING)) == 20, "the sampler still works"


def test_abandoned_episodes_do_not_block_the_next_ones(sampler: RaySampler) -> None:
    stream = sampler.sample_turns(requests_for_step(7), DECODING, TurnQueue())
    while next(stream) is None:
        pass
    stream.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert len(play(sampler, requests_for_step(8), DECODING)) == 20


def test_replicas_that_cannot_load_the_weights_count_as_lost(sampler: RaySampler) -> None:
    """A failed call does not stop an actor, but without the published weights it must not sample."""
    sampler.publish(7)
    sampler.publish(REFUSED)
    for process in sampler.processes():
        os.kill(process, signal.SIGKILL)
    with pytest.raises(TrainingError, match=r"in a row.*out of memory while loading the weights"):
        list(sampler.sample(requests_for_step(6), DECODING))


@pytest.mark.parametrize(("count", "chunks", "sizes"), [(5, 2, [2, 3]), (1, 4, [1]), (0, 2, []), (8, 4, [2, 2, 2, 2])])
def test_requests_are_split_evenly(count: int, chunks: int, sizes: list[int]) -> None:
    requests = [SampleRequest(task, 0, slot, 1) for slot, task in enumerate(tasks(count))]
    split = _split(requests, chunks)
    assert [len(chunk) for chunk in split] == sizes
    assert [request for chunk in split for request in chunk] == requests
