"""Every sampler records the text offset at which the token of each decision starts."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from steelyard.policies.base import Policy
from steelyard.sampling.base import Decoding
from steelyard.sampling.snapshot import SnapshotSampler
from steelyard.training.learner_samples import load_samples, save_samples
from steelyard.types import CutRule, Sample
from tests.tiny import requests, rollout, sample_of, tasks_for, tiny_policy, with_advantages

pytestmark = pytest.mark.unit


def by_prefixes(policy: Policy, sample: Sample) -> list[int]:
    places = sample.decisions.position_N - sample.prompt_length
    return [len(policy.decode(sample.completion_ids[:place])) for place in places]


def starts(sample: Sample) -> list[int]:
    assert sample.decisions.text_start_N is not None
    assert sample.decisions.text_start_N.dtype == np.int32
    return sample.decisions.text_start_N.tolist()


@pytest.mark.parametrize("kind", ["causal", "masked"])
@pytest.mark.parametrize("rule", [CutRule(), CutRule(0.7, top_k=1), CutRule(0.7, top_k=3)])
def test_local_and_filled(kind: str, rule: CutRule) -> None:
    policy = tiny_policy(kind=kind)
    for sample in rollout(policy, count=4, rule=rule):
        assert starts(sample) == by_prefixes(policy, sample)


def test_a_twin_sampler_and_another_process() -> None:
    policy = tiny_policy()
    for sample in SnapshotSampler(policy, seed=0).sample(requests(2, of=tasks_for(policy)), Decoding(CutRule(), 8)):
        assert starts(sample) == by_prefixes(policy, sample)
        assert starts(pickle.loads(pickle.dumps(sample))) == starts(sample)


def test_starts_are_stored_and_a_file_without_them_is_read(tmp_path: Path) -> None:
    made = with_advantages([sample_of([1, 2, 3], starts=[0, 3]), sample_of([1, 2])])
    save_samples(tmp_path, made, {})
    assert [one.sample.decisions.text_start_N is None for one in load_samples(tmp_path)] == [False, True]
    assert starts(load_samples(tmp_path)[0].sample) == [0, 3]
    file = tmp_path / "samples.safetensors"
    save_file({name: array for name, array in load_file(file).items() if not name.endswith(".start")}, file)
    assert load_samples(tmp_path)[0].sample.decisions.text_start_N is None
