"""Sampling under a constraint: draws, forced tokens and recorded supports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from steelyard.constraints.automaton import Automaton, WordConstraint
from steelyard.constraints.base import members
from steelyard.constraints.examples.boxes import Boxes
from steelyard.constraints.examples.brackets import Brackets
from steelyard.policies.causal import CausalPolicy
from steelyard.sampling import wave
from steelyard.sampling.base import Decoding, SampleRequest
from steelyard.sampling.local import LocalSampler
from steelyard.training.supports import find_supports
from steelyard.types import CutRule, Sample, Task
from tests.tiny import support_sets, tiny_policy

WORDS = ("(", ")", "[", "]", "skip", *(f"c{i}" for i in range(4)), *(f"r{i}" for i in range(4)))
LIMIT = 12
BOXES = ([[1, 1], [2, 2]], [[4, 4], [1, 1], [1, 2]], [[4, 2], [4, 2], [1, 1], [2, 2]])
TASKS = tuple(
    Task(f"t{number}", " ".join(WORDS[: 2 * number + 1]), {"boxes": boxes}) for number, boxes in enumerate(BOXES)
)
RULES = (CutRule(), CutRule(0.7, top_p=0.9), CutRule(1.3, top_k=2), CutRule(1.0, min_p=0.2))


@pytest.fixture(params=["brackets", "boxes"])
def policy(request: pytest.FixtureRequest) -> CausalPolicy:
    made = tiny_policy(words=WORDS, sharpness=3.0)
    automaton = Brackets(3, "()[]", 4) if request.param == "brackets" else Boxes(4, 4)
    made.constraint = WordConstraint(
        automaton, made.tokenizer.get_vocab(), end_id=made.end_ids[0], vocabulary=made.vocabulary
    )
    return made


def drawn(policy: CausalPolicy, rule: CutRule = CutRule(), *, count: int = 6, **decoding: Any) -> list[Sample]:
    requests = [SampleRequest(task, 3, slot, count) for slot, task in enumerate(TASKS)]
    settings = {"max_new_tokens": LIMIT, **decoding}
    return sorted(LocalSampler(policy, seed=1).sample(requests, Decoding(rule, **settings)), key=lambda one: one.key)


def walked(policy: CausalPolicy, sample: Sample, budget: int = LIMIT) -> Iterator[tuple[int, list[int]]]:
    """Return (position, allowed tokens) for every position with a choice."""
    assert policy.constraint is not None
    walk = policy.constraint.begin(TASKS[sample.key.slot])
    for place, token in enumerate(sample.completion_ids.tolist()):
        options = members(walk.allowed(budget - place)).tolist()
        assert token in options
        if len(options) > 1:
            yield place, options
        walk.advance(token)


@pytest.mark.parametrize("limit", [9, LIMIT])
def test_every_sample_ends_within_the_budget(policy: CausalPolicy, limit: int) -> None:
    for sample in drawn(policy, max_new_tokens=limit):
        assert sample.finish == "stop"
        assert len(sample.completion_ids) <= limit
        list(walked(policy, sample, limit))


def test_decisions_are_the_choices_and_supports_the_allowed_tokens(policy: CausalPolicy) -> None:
    samples = drawn(policy)
    assert any(len(sample.decisions) < len(sample.completion_ids) for sample in samples)  # some tokens were forced
    for sample in samples:
        places, sets = zip(*walked(policy, sample), strict=True)
        assert (sample.decisions.position_N - sample.prompt_length).tolist() == list(places)
        assert support_sets(sample) == list(sets)


@pytest.mark.parametrize("rule", RULES)
def test_sampler_and_learner_agree(policy: CausalPolicy, rule: CutRule) -> None:
    samples = [sample for sample in drawn(policy, rule) if len(sample.decisions)]
    logp_N = policy.evaluate(policy.collate(samples)).logp_N.detach().numpy()
    behaviour_N = np.concatenate([sample.decisions.logp_N for sample in samples])
    assert np.abs(logp_N - behaviour_N).max() < 1e-5


@pytest.mark.parametrize("rule", RULES[:2])
def test_runs_and_single_steps_give_the_same_samples(
    policy: CausalPolicy, rule: CutRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forced tokens are processed in one pass with the preceding token, in runs that all rows share, or one at a time,
    as some caches require.
    """
    monkeypatch.setattr(wave, "ALIGNED_MEAN_LIMIT", 1.0)
    together = drawn(policy, rule)
    monkeypatch.setattr(wave, "ALIGNED_MEAN_LIMIT", 99.0)
    monkeypatch.setattr(wave, "ALIGNED_RUN_LIMIT", 99)
    level = drawn(policy, rule)
    monkeypatch.setattr(wave, "MASKED_KERNELS", ())
    one_by_one = drawn(policy, rule)
    for a, b, c in zip(together, level, one_by_one, strict=True):
        assert a.token_ids.tolist() == b.token_ids.tolist() == c.token_ids.tolist()
        assert np.abs(a.decisions.logp_N - c.decisions.logp_N).max(initial=0) < 1e-5
        assert np.abs(b.decisions.logp_N - c.decisions.logp_N).max(initial=0) < 1e-5


def test_forced_tokens_need_no_extra_pass(policy: CausalPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the prompt there is at most one pass per decision of the row with the most decisions."""
    passes: list[int] = []
    forward = wave.Wave._forward

    def counting(self: Any, token_BT: np.ndarray, *rest: Any) -> Any:
        passes.append(token_BT.shape[1])
        return forward(self, token_BT, *rest)

    monkeypatch.setattr(wave.Wave, "_forward", counting)
    monkeypatch.setattr(wave, "ALIGNED_MEAN_LIMIT", 1.0)
    samples = drawn(policy)
    assert len(passes) <= max(len(sample.decisions) for sample in samples)
    assert max(passes) > 1


def test_rows_stay_aligned_if_runs_are_rare(policy: CausalPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wave, "ALIGNED_MEAN_LIMIT", 99.0)
    monkeypatch.setattr(wave, "ALIGNED_RUN_LIMIT", 99)
    monkeypatch.setattr(wave.Wave, "_own_mask", None)
    assert drawn(policy)


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_rows_at_different_columns_do_not_attend_to_each_other(policy: CausalPolicy, kernel: str) -> None:
    """Each sample is the same when drawn in a batch of its own."""
    policy.attention = (kernel, kernel)
    together = {sample.key: sample for sample in drawn(policy)}
    for slot, task in enumerate(TASKS):
        alone = LocalSampler(policy, seed=1).sample([SampleRequest(task, 3, slot, 6)], Decoding(max_new_tokens=LIMIT))
        for sample in alone:
            other = together[sample.key]
            assert sample.token_ids.tolist() == other.token_ids.tolist()
            assert np.abs(sample.decisions.logp_N - other.decisions.logp_N).max(initial=0) < 1e-5


def test_unwritten_cache_has_no_effect(policy: CausalPolicy) -> None:
    """New memory may contain anything: here NaN, which would spread even with a weight of 0."""
    expected = drawn(policy)
    torch.use_deterministic_algorithms(True)  # fills new memory with NaN
    try:
        assert torch.empty(1).isnan().all()
        found = drawn(policy)
    finally:
        torch.use_deterministic_algorithms(False)
    for a, b in zip(expected, found, strict=True):
        assert a.token_ids.tolist() == b.token_ids.tolist()
        assert np.abs(a.decisions.logp_N - b.decisions.logp_N).max(initial=0) < 1e-5


@pytest.mark.parametrize("rule", RULES)
def test_recomputed_supports_equal_those_of_the_draws(policy: CausalPolicy, rule: CutRule) -> None:
    stored, left_out = drawn(policy, rule), drawn(policy, rule, supports="recomputed")
    found = find_supports(policy, left_out, 256)
    for one, bare, again in zip(stored, left_out, found, strict=True):
        assert bare.decisions.supports is None
        assert bare.decisions.supports_omitted
        assert not again.decisions.supports_omitted
        assert one.token_ids.tolist() == again.token_ids.tolist()
        assert support_sets(one) == support_sets(again)


class Anything(Automaton[int]):
    """Allows every token at any time."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words

    def start(self, task: Task) -> int:
        return 0

    def moves(self, state: int) -> dict[str, int]:
        return dict.fromkeys(self.words, 0)

    def may_end(self, state: int) -> bool:
        return True


def test_a_constraint_that_allows_everything_does_not_change_samples() -> None:
    """The last position of the budget is an exception: only the end token is allowed."""
    policy = tiny_policy(words=WORDS)
    free, vocabulary = drawn(policy), policy.tokenizer.get_vocab()
    words = [word for word, token in vocabulary.items() if token != policy.end_id]
    policy.constraint = WordConstraint(Anything(words), vocabulary, end_id=policy.end_id, vocabulary=policy.vocabulary)
    for one, other in zip(free, drawn(policy), strict=True):
        compared = min(len(one.completion_ids), LIMIT - 1)
        assert compared > 0
        assert one.completion_ids[:compared].tolist() == other.completion_ids[:compared].tolist()
        assert np.abs(one.decisions.logp_N[:compared] - other.decisions.logp_N[:compared]).max() < 1e-6
