"""A sample generated token by token by another engine has the same forced tokens, supports and end."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.constraints.automaton import WordConstraint
from steelyard.constraints.examples.brackets import Brackets
from steelyard.policies.causal import CausalPolicy
from steelyard.sampling.base import Decoding, SampleRequest
from steelyard.sampling.local import LocalSampler
from steelyard.sampling.offsets import TextOffsets
from steelyard.sampling.partial_sample import PartialSample
from steelyard.sampling.vllm.tracked_sample import TrackedSample
from steelyard.types import CutRule, Sample, SampleKey, Task
from tests.tiny import support_sets, tiny_policy

WORDS = ("(", ")", "[", "]")
TASK = Task("t", "( ]")


@pytest.fixture
def policy() -> CausalPolicy:
    made = tiny_policy(words=WORDS, sharpness=3.0)
    made.constraint = WordConstraint(
        Brackets(3, "()[]", 4), made.tokenizer.get_vocab(), end_id=made.end_id, vocabulary=made.vocabulary
    )
    return made


def written(policy: CausalPolicy, sample: Sample, decoding: Decoding) -> tuple[Sample, int]:
    """Regenerate a sample one token per step, as an engine would; return it with the number of steps."""
    request = SampleRequest(TASK, 0, 0, 1)
    row = PartialSample(
        request,
        SampleKey(*sample.key),
        sample.token_ids[: sample.prompt_length],
        decoding,
        frozenset(policy.end_ids),
        policy.constraint,
        policy.vocabulary,
    )
    tracked, tokens, logps = TrackedSample(row), list[int](), list[float]()
    decided = dict(zip(sample.decisions.position_N - sample.prompt_length, sample.decisions.logp_N, strict=True))
    sets = iter(support_sets(sample))
    while not tokens or tokens[-1] not in policy.end_ids:
        tracked.follow(tokens)
        token = tracked.forced(len(tokens))
        logps.append(0.0 if token is not None else float(decided[len(tokens)]))
        if token is None and decoding.rule.cuts:
            tracked.kept = np.asarray(next(sets), np.int32)
        tokens.append(int(sample.completion_ids[len(tokens)]) if token is None else token)
    tracked.follow(tokens)
    row.set_log_probs(logps)
    return row.finish(TextOffsets(policy.tokenizer, policy.decode), 0), len(tokens)


@pytest.mark.parametrize("rule", [CutRule(), CutRule(0.8, top_k=2)])
def test_a_tracked_sample_equals_that_of_the_local_sampler(policy: CausalPolicy, rule: CutRule) -> None:
    decoding = Decoding(rule, 10)
    steps, lengths = list[int](), list[int]()
    for sample in LocalSampler(policy, seed=0).sample([SampleRequest(TASK, 0, 0, 24)], decoding):
        if rule.cuts and len(sample.decisions) < len(sample.completion_ids):
            continue  # truncation that leaves one token is not stored, so it cannot be replayed
        again, taken = written(policy, sample, decoding)
        steps.append(taken)
        lengths.append(len(sample.completion_ids))
        assert again.token_ids.tolist() == sample.token_ids.tolist()
        assert again.decisions.position_N.tolist() == sample.decisions.position_N.tolist()
        assert again.decisions.logp_N.tolist() == sample.decisions.logp_N.tolist()
        assert support_sets(again) == support_sets(sample)
        assert (again.finish, again.text) == (sample.finish, sample.text)
    if not rule.cuts:
        assert sum(steps) < sum(lengths)  # forced final tokens are not generated one by one
