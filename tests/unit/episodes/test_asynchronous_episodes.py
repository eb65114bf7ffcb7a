"""Episodes in asynchronous rollouts: all turns of an episode come from the same weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.environments import Environment, EnvironmentVerifier
from steelyard.policies.tokens.conversation import Conversations
from steelyard.sampling.base import Decoding, SampleRequest, TurnQueue
from steelyard.sampling.snapshot import SnapshotSampler
from steelyard.tracking import read_metrics
from steelyard.training.episodes import EpisodeLimits, Episodes
from steelyard.training.rollouts import AsynchronousRollouts
from steelyard.types import Sample, SampleKey, Task
from steelyard.verification import InlinePool
from tests.tiny import tiny_policy, tiny_trainer

STEPS = 5


class Echo(Environment):
    """Repeats the first word of a turn; the reward is the fraction of turns that start with a small number."""

    isolate = False

    def reply(self, task: Task, turns: Any) -> Any:
        written = [turn["content"].split()[:1] for turn in turns if turn["role"] == "assistant"]
        if len(written) < 3:
            return " ".join(written[-1]) or "0"
        return sum(first in (["1"], ["2"], ["3"]) for first in written) / 3

    def cut_off(self, task: Task, turns: Any, limit: Any) -> Any:
        return 0.0


class Recording(SnapshotSampler):
    """Records the version of the weights that sampled each turn."""

    def __init__(self, policy: Any, **settings: Any) -> None:
        super().__init__(policy, **settings)
        self.versions: dict[SampleKey, list[int]] = defaultdict(list)
        self.sampling = 0

    def publish(self, version: int) -> None:
        assert not self.sampling, "new weights within an episode"
        super().publish(version)

    def sample_turns(
        self, requests: Sequence[SampleRequest], decoding: Decoding, turns: TurnQueue
    ) -> Iterator[Sample | None]:
        self.sampling += 1
        for sample in super().sample_turns(requests, decoding, turns):
            if sample is not None:
                self.versions[sample.key].append(self.version)
            yield sample
        self.sampling -= 1


@pytest.mark.parametrize("staleness", [1, 2])
def test_all_turns_of_an_episode_come_from_the_same_weights(tmp_path: Path, staleness: int) -> None:
    """New weights are published only between two sampling calls, and a call ends with its last episode."""
    policy = tiny_policy(sharpness=2.0)
    trainer = tiny_trainer(tmp_path, policy=policy, steps=STEPS, decoding=Decoding(max_new_tokens=8))
    sampler = Recording(policy, seed=0)
    episodes = Episodes(
        sampler, InlinePool(EnvironmentVerifier(Echo())), Conversations(policy.codec), EpisodeLimits(4, 100)
    )
    trainer.parts.sampler, trainer.parts.pool = episodes, episodes.verdicts
    trainer.rollouts = AsynchronousRollouts(trainer.parts, steps=STEPS, staleness=staleness)
    kept: list[Sample] = []
    fetch = trainer.rollouts.fetch

    def fetched(groups: Any) -> Any:
        found = fetch(groups)
        kept.extend(sample for group in found for sample in group.samples)
        return found

    trainer.rollouts.fetch = fetched  # type: ignore[method-assign]
    trainer.train()
    trainer.close()
    assert max(len(versions) for versions in sampler.versions.values()) == 3
    assert len(kept) == STEPS * 8
    for sample in kept:
        assert sampler.versions[sample.key] == [sample.policy_version] * sum(
            turn.role == "assistant" for turn in sample.turns
        )
        assert 0 <= sample.key.step - sample.policy_version <= staleness
    assert {sample.policy_version for sample in kept} > {0}, "later episodes come from newer weights"
    rows = read_metrics(tmp_path / "metrics.jsonl")
    assert len(rows) == STEPS
    assert np.isfinite([row["reward/mean"] for row in rows]).all()
