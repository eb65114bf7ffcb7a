"""Episodes on the local sampler: rows keep their cache while they wait for replies, whatever else is in the batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from steelyard.constraints.automaton import WordConstraint
from steelyard.errors import PolicyError
from steelyard.policies.causal import CausalPolicy
from steelyard.sampling import local
from steelyard.sampling.base import Decoding, NextTurn, SampleRequest, TurnQueue
from steelyard.sampling.local import LocalSampler
from steelyard.types import CutRule, SampleKey, Task
from tests.scripted_episodes import Lengthening, Script, Turns, play
from tests.tiny import WORDS, tasks, tiny_policy
from tests.unit.sampling.test_local import forward_shapes, policy_of

REQUESTS = [SampleRequest(task, 0, slot, 3) for slot, task in enumerate(tasks(4))]


@pytest.fixture(scope="module")
def policy() -> CausalPolicy:
    return tiny_policy(sharpness=3.0)


def sampler_of(policy: CausalPolicy, max_rows: int = 64) -> LocalSampler:
    return LocalSampler(policy, seed=0, max_rows=max_rows)


def assert_same(one: Turns, other: Turns) -> None:
    assert one.keys() == other.keys()
    for key, turns in one.items():
        assert [turn.token_ids.tolist() for turn in turns] == [turn.token_ids.tolist() for turn in other[key]]
        for a, b in zip(turns, other[key], strict=True):
            np.testing.assert_allclose(a.decisions.logp_N, b.decisions.logp_N, atol=1e-5)


@contextmanager
def nan_in_fresh_memory() -> Iterator[None]:
    """Fill uninitialised tensors with NaN."""
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="module")
def expected(policy: CausalPolicy) -> Turns:
    """Episodes of 1 to 5 turns with immediate replies, all in one batch."""
    played = play(sampler_of(policy), REQUESTS)
    assert {len(turns) for turns in played.values()} == {1, 2, 3, 4, 5}
    return played


@pytest.mark.parametrize("max_rows", [1, 3, 64])
def test_neither_latency_nor_the_batch_changes_an_episode(policy: CausalPolicy, expected: Turns, max_rows: int) -> None:
    delays = np.random.default_rng(max_rows)
    with nan_in_fresh_memory():
        found = play(sampler_of(policy, max_rows), REQUESTS, delays=delays, open_limit=max_rows)
    assert_same(expected, found)


def test_the_learner_reproduces_every_turn(policy: CausalPolicy) -> None:
    delays = np.random.default_rng(2)
    for turns in play(sampler_of(policy, 4), REQUESTS, Decoding(CutRule(0.9, top_p=0.95), 5), delays=delays).values():
        for turn in turns:
            if len(turn.decisions):
                logp_N = policy.evaluate(policy.collate([turn])).logp_N.detach().numpy()
                np.testing.assert_allclose(logp_N, turn.decisions.logp_N, atol=1e-5)


def test_turns_use_different_random_numbers(policy: CausalPolicy) -> None:
    """The second turn has the same prompt as the first, but must not repeat its draws."""
    task = Task("t", "1 2 3")
    ids = policy.encode(task.prompt)
    turns, drawn = TurnQueue(), []
    request = SampleRequest(task, 0, 0, 1)
    for sample in sampler_of(policy).sample_turns([request], Decoding(max_new_tokens=8), turns):
        assert sample is not None
        drawn.append(sample.completion_ids.tolist())
        if len(drawn) == 2:
            turns.end(sample.key)
        else:
            turn = NextTurn(0, ids, len(drawn[0]), 8)
            turns.add(SampleRequest(task, 0, 0, 1, next_turn=turn))
    assert drawn[0] != drawn[1]


def test_no_token_is_run_twice(policy: CausalPolicy) -> None:
    request = SampleRequest(tasks(3)[2], 0, 4, 1)
    with forward_shapes(policy) as shapes:
        (turns,) = play(sampler_of(policy), [request]).values()
    assert len(turns) == 5
    assert sum(rows * width for rows, width in shapes) == len(turns[-1].token_ids) - 1


def test_an_episode_that_starts_later_copies_the_prompt_of_its_group(policy: CausalPolicy) -> None:
    request = SampleRequest(tasks(4)[3], 0, 0, 6)
    with forward_shapes(policy) as shapes:
        played = play(sampler_of(policy, 2), [request], script=Script(turns=1))
    prompt, sampled = len(policy.encode(request.task.prompt)), [len(turn.completion_ids) for (turn,) in played.values()]
    later = request.count - 2  # their first draw needs the last token of the prompt
    assert sum(rows * width for rows, width in shapes) == prompt + later + sum(sampled) - request.count


def test_a_rewritten_conversation_shares_what_it_can(policy: CausalPolicy) -> None:
    """A fork continues with tokens that differ from those in the cache."""
    task = Task("t", " ".join(WORDS[:9]))
    ids = policy.encode(task.prompt)
    forked = np.concatenate([ids[:6], ids[:2]])
    request = SampleRequest(task, 0, 0, 1)
    turns, samples = TurnQueue(), []
    with forward_shapes(policy) as shapes:
        for sample in sampler_of(policy).sample_turns([request], Decoding(max_new_tokens=4), turns):
            assert sample is not None
            samples.append(sample)
            if len(samples) == 2:
                turns.end(sample.key)
            else:
                first = len(shapes)
                turns.add(SampleRequest(task, 0, 0, 1, next_turn=NextTurn(0, forked, 4, 4)))
    assert shapes[first] == (1, 2), "only the tokens after the first difference are run"
    alone = SampleRequest(task, 0, 0, 1, next_turn=NextTurn(0, forked, 4, 4))
    (expected,) = play(sampler_of(policy), [alone], Decoding(max_new_tokens=4), script=Script(turns=1)).values()
    assert samples[1].token_ids.tolist() == expected[0].token_ids.tolist()


@pytest.mark.parametrize("started", [True, False])
def test_an_episode_under_way_can_be_taken_over(policy: CausalPolicy, expected: Turns, started: bool) -> None:
    """A sampler can continue an episode it has never seen from the tokens, as it must when another sampler was lost."""
    key = max(expected, key=lambda key: len(expected[key]))
    first, second = expected[key][:2]
    turn = NextTurn(key.sample, second.token_ids[: second.prompt_length], len(first.completion_ids), 5)
    request = SampleRequest(REQUESTS[key.slot].task, *key[:2], 1, next_turn=turn)
    turns = TurnQueue()
    if started:
        turns.add(request)
    found = {}
    starts = [REQUESTS[0]] if started else [request]
    for sample in sampler_of(policy, 2).sample_turns(starts, Decoding(max_new_tokens=5), turns):
        assert sample is not None
        turns.end(sample.key)
        found[sample.key] = sample.token_ids.tolist()
    assert found[key] == second.token_ids.tolist()


def test_each_turn_has_its_own_constraint_and_may_be_forced() -> None:
    constrained = tiny_policy(sharpness=3.0)
    constrained.constraint = WordConstraint(
        Lengthening(WORDS),
        constrained.tokenizer.get_vocab(),
        end_id=constrained.end_ids[0],
        vocabulary=constrained.vocabulary,
    )
    expected = play(sampler_of(constrained), REQUESTS, Decoding(max_new_tokens=8))
    found = play(sampler_of(constrained, 3), REQUESTS, Decoding(max_new_tokens=8), delays=np.random.default_rng(0))
    assert_same(expected, found)
    for turns in found.values():
        for number, turn in enumerate(turns):
            assert turn.finish == "stop"
            assert set(turn.text.split()) <= set(WORDS[: number + 1])
            assert len(turn.decisions) == number


@pytest.mark.parametrize("architecture", ["bloom", "mpt"])
def test_models_whose_rows_cannot_wait_are_rejected(architecture: str) -> None:
    sampler = LocalSampler(policy_of(architecture), seed=0)
    with pytest.raises(PolicyError, match=rf"'{architecture}'.*model\.attention = 'sdpa'"):
        next(sampler.sample_turns(REQUESTS, Decoding(), TurnQueue()))


def test_a_kernel_without_masks_is_rejected(policy: CausalPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MASKED_KERNELS", ())
    with pytest.raises(PolicyError, match="replies"):
        next(sampler_of(policy).sample_turns(REQUESTS, Decoding(), TurnQueue()))


def test_no_episodes_no_turns(policy: CausalPolicy) -> None:
    assert not list(sampler_of(policy).sample_turns([], Decoding(), TurnQueue()))


def test_a_queue_hands_out_everything_once() -> None:
    turns = TurnQueue()
    turns.add(REQUESTS[0])
    turns.end(SampleKey(0, 0, 0, 0))
    assert turns.take() == [REQUESTS[0]]
    assert turns.take_ended() == [SampleKey(0, 0, 0, 0)]
    assert turns.take() == turns.take_ended() == []
    assert turns.is_over(SampleKey(0, 0, 0, 0))


def test_a_request_can_name_its_samples() -> None:
    request = SampleRequest(tasks(1)[0], 2, 3, 8, only=(1, 5))
    assert request.keys == [SampleKey(2, 3, 0, 1), SampleKey(2, 3, 0, 5)]
