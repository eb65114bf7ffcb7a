"""The fill-in sampler: draws, order and recorded values."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from steelyard.errors import PolicyError
from steelyard.policies.masked import MaskedPolicy
from steelyard.sampling.base import Decoding, SampleRequest
from steelyard.sampling.fill import FillSampler
from steelyard.types import HOLE, CutRule, Sample, Task
from tests.tiny import support_sets, tiny_policy

PROMPT = f"1 {HOLE} {HOLE} 4 {HOLE} {HOLE} {HOLE}"


@pytest.fixture(scope="module")
def policy() -> MaskedPolicy:
    return tiny_policy(kind="masked")


def filled(
    policy: MaskedPolicy, *, steps: int, count: int = 6, task: Task | None = None, **settings: Any
) -> list[Sample]:
    rule = settings.pop("rule", CutRule())
    sampler = FillSampler(policy, seed=settings.pop("seed", 0), steps=steps, **settings)
    return list(sampler.sample([SampleRequest(task or Task("t", PROMPT), 0, 0, count)], Decoding(rule, 16)))


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 9])
def test_the_trace_goes_from_the_holes_to_the_text(steps: int, policy: MaskedPolicy) -> None:
    for sample in filled(policy, steps=steps):
        width = len(sample.completion_ids)
        trace = sample.token_ids.reshape(-1, width)
        holes = (trace == policy.mask_id).sum(1)
        assert len(trace) == min(steps, 5) + 1
        assert holes[0] == 5
        assert holes[-1] == 0
        assert (np.diff(holes) < 0).all()
        for place, forward in zip(sample.decisions.position_N, sample.decisions.forward_N, strict=True):
            column = place - sample.prompt_length
            assert trace[forward, column] == policy.mask_id != trace[forward + 1, column] == sample.token_ids[place]
        given = policy.encode(PROMPT) != policy.mask_id
        assert (trace[:, given] == policy.encode(PROMPT)[given]).all()
        assert sample.text == policy.decode(sample.completion_ids)


def test_the_order_is_random_or_from_left_to_right_and_never_the_models(policy: MaskedPolicy) -> None:
    other = tiny_policy(kind="masked", seed=9)
    orders = [[one.decisions.forward_N.tolist() for one in filled(each, steps=5)] for each in (policy, other)]
    places = [[one.decisions.position_N.tolist() for one in filled(each, steps=5)] for each in (policy, other)]
    assert (orders[0], places[0]) == (orders[1], places[1]), "it does not depend on the weights"
    assert len({tuple(place) for place in places[0]}) > 1
    for sample in filled(policy, steps=5, order="left_to_right"):
        assert (np.diff(sample.decisions.position_N) > 0).all()
    with pytest.raises(PolicyError, match=r"fill_order = 'confidence'.*use random or left_to_right"):
        FillSampler(policy, seed=0, order="confidence")  # type: ignore[arg-type]


def test_every_hole_is_equally_likely_to_be_first(policy: MaskedPolicy) -> None:
    firsts = Counter(int(one.decisions.position_N[0]) for one in filled(policy, steps=5, count=1000))
    assert len(firsts) == 5
    assert max(firsts.values()) < 260


def test_the_same_key_gives_the_same_sample_and_another_seed_another(policy: MaskedPolicy) -> None:
    one, same, other = (
        [sample.token_ids.tolist() for sample in filled(policy, steps=2, seed=seed, max_rows=rows)]
        for seed, rows in ((0, 256), (0, 2), (1, 256))
    )
    assert one == same
    assert one != other


def test_draws_follow_the_model(policy: MaskedPolicy) -> None:
    task = Task("t", f"1 {HOLE} 3")
    drawn = Counter(int(sample.completion_ids[1]) for sample in filled(policy, steps=1, count=4000, task=task))
    sample = policy.sample_from_text(task, "1 2 3", filled(policy, steps=1, count=1, task=task)[0].key)
    batch = policy.collate([sample])
    with torch.no_grad():
        logits_V = policy.head(policy.hidden(batch))[0]
    allowed = policy.collate([sample]).supports
    assert allowed is not None
    p_V = logits_V.masked_fill(allowed.blocked(slice(0, 1), policy.vocabulary)[0], -torch.inf).softmax(-1)
    for token, p in enumerate(p_V.tolist()):
        assert drawn[token] / 4000 == pytest.approx(p, abs=4 * (p * (1 - p) / 4000) ** 0.5 + 1e-9)


def test_a_group_shares_its_first_forward_pass(policy: MaskedPolicy) -> None:
    shapes: list[tuple[int, ...]] = []

    def note(_module: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        shapes.append(tuple(kwargs["input_ids"].shape))

    handle = policy.model.register_forward_pre_hook(note, with_kwargs=True)
    try:
        filled(policy, steps=2, count=8)
    finally:
        handle.remove()
    assert shapes[0] == (1, 7)
    assert shapes[1][0] > 1
    assert len(shapes) == 2


def test_a_forced_token_is_not_a_decision_but_is_in_the_trace(policy: MaskedPolicy) -> None:
    samples = filled(policy, steps=3, rule=CutRule(top_k=1))
    assert all(len(sample.decisions) == 0 for sample in samples)
    assert len({sample.text for sample in filled(policy, steps=1, rule=CutRule(top_k=1))}) == 1
    mixed = filled(policy, steps=3, rule=CutRule(top_p=0.7), count=20)
    counts = {len(sample.decisions) for sample in mixed}
    assert len(counts) > 1, "some tokens were forced and some were not"
    logp_N = policy.evaluate(policy.collate([one for one in mixed if len(one.decisions)])).logp_N.detach().numpy()
    drawn = np.concatenate([one.decisions.logp_N for one in mixed])
    assert np.abs(logp_N - drawn).max() < 1e-5


def test_supports_have_the_allowed_and_kept_tokens(policy: MaskedPolicy) -> None:
    forbidden = [str(number) for number in range(10)]
    task = Task("t", PROMPT, {"forbidden": forbidden})
    own = policy.tokenizer.get_vocab()
    for sample in filled(policy, steps=2, task=task):
        assert set(sample.text.split()) - {"1", "4"} <= {"10", "11", "12"}
        assert all(set(one) == {own["10"], own["11"], own["12"]} for one in support_sets(sample))
    for sample in filled(policy, steps=2, rule=CutRule(top_k=3)):
        assert all(len(one) == 3 for one in support_sets(sample))
    with pytest.raises(PolicyError, match="forbids every token"):
        filled(policy, steps=1, task=Task("t", PROMPT, {"forbidden": [str(number) for number in range(13)]}))


def test_texts_that_do_not_fit_are_rejected(policy: MaskedPolicy) -> None:
    with pytest.raises(PolicyError, match="17 holes, more than sampling"):
        filled(policy, steps=1, task=Task("t", " ".join([HOLE] * 17)))
    with pytest.raises(PolicyError, match="128 positions"):
        filled(policy, steps=1, task=Task("t", " ".join([HOLE] + ["1"] * 128)))


def test_a_text_without_holes_is_returned_unchanged(policy: MaskedPolicy) -> None:
    (sample,) = filled(policy, steps=2, count=1, task=Task("t", "1 2 3"))
    assert sample.text == "1 2 3"
    assert len(sample.decisions) == 0
