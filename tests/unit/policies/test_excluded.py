"""Excluded tokens are outside every support: never sampled, and left out of every score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

from steelyard.errors import PolicyError
from steelyard.policies.causal import CausalPolicy
from steelyard.policies.masked import MaskedPolicy
from steelyard.policies.scratch import closed_vocabulary_tokenizer
from steelyard.policies.tokens.excluded import describe_excluded, excluded_ids
from steelyard.types import CutRule, SampleKey, Task
from tests.tiny import KINDS, WORDS, rollout, support_sets, tiny_policy

PAD, BOS, EOS, MASK = 0, 1, 2, 3
TOKENS, ROWS = len(WORDS) + 3, len(WORDS) + 3 + 4
"""A model with four more logits than its tokenizer has tokens."""
UNUSED = tuple(range(TOKENS, ROWS))
RULES = (CutRule(), CutRule(0.7, top_p=0.9), CutRule(1.3, top_k=ROWS - 1), CutRule(1.0, min_p=0.01))


def closed(**settings: Any) -> Any:
    return closed_vocabulary_tokenizer(WORDS, **settings)


def padded_policy(kind: str = "causal", **settings: Any) -> Any:
    """A nearly uniform policy with more logits than tokens."""
    plain = tiny_policy(kind=kind, sharpness=1.0)
    config = plain.model.config
    config.vocab_size = len(plain.tokenizer) + 4
    model_class, policy_class = {
        "causal": (AutoModelForCausalLM, CausalPolicy),
        "masked": (AutoModelForMaskedLM, MaskedPolicy),
    }[kind]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return policy_class(model_class.from_config(config), plain.tokenizer, **settings)


# --- which tokens ----------------------------------------------------------------------------------------------------


def test_by_default_padding_start_mask_and_unused_ids() -> None:
    assert excluded_ids(closed(), TOKENS, [EOS]) == (PAD, BOS)
    assert excluded_ids(closed(), ROWS, [EOS]) == (PAD, BOS, *UNUSED)
    assert excluded_ids(closed(masks=True), TOKENS + 1, [EOS]) == (PAD, BOS, MASK)
    assert describe_excluded(closed(), (PAD, BOS, *UNUSED)) == ["<pad>", "<bos>", "4 unused ids"]


@pytest.mark.parametrize("role", ["pad", "bos"])
def test_the_end_token_is_never_excluded_even_with_another_role(role: str) -> None:
    tokenizer = closed()
    setattr(tokenizer, f"{role}_token", tokenizer.eos_token)
    assert EOS not in excluded_ids(tokenizer, TOKENS, [EOS])
    assert len(excluded_ids(tokenizer, TOKENS, [EOS])) == 1


def test_no_end_token_is_excluded() -> None:
    """Some chat models pad with one of several end tokens."""
    assert excluded_ids(closed(), TOKENS, [PAD, EOS]) == (BOS,)


def test_named_tokens_replace_the_default_but_unused_ids_stay_excluded() -> None:
    assert excluded_ids(closed(), ROWS, [EOS], ["<bos>", "7"]) == (BOS, 10, *UNUSED)
    assert excluded_ids(closed(), ROWS, [EOS], []) == UNUSED


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["<pda>"], r"model\.excluded_tokens: '<pda>' is not a token.*did you mean <pad>"),
        (["<eos>"], r"model\.excluded_tokens: '<eos>' ends a sample"),
        (["<pad>", "<bos>", *WORDS], "fewer than two"),
    ],
)
def test_names_that_cannot_be_excluded(names: list[str], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        excluded_ids(closed(), TOKENS, [EOS], names)


# --- samples and scores ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES)
def test_excluded_tokens_are_never_sampled_and_sampler_and_learner_agree(kind: str, rule: CutRule) -> None:
    policy = padded_policy(kind)
    assert set(policy.excluded) >= {PAD, BOS, policy.vocabulary - 1}
    samples = rollout(policy, count=8, rule=rule)
    drawn = [sample.token_ids[sample.decisions.position_N] for sample in samples]
    assert not np.isin(np.concatenate(drawn), policy.excluded).any()
    if samples[0].decisions.supports is not None:
        assert not {token for sample in samples for one in support_sets(sample) for token in one} & {*policy.excluded}
    scores = policy.evaluate(policy.collate(samples))
    behaviour_N = np.concatenate([sample.decisions.logp_N for sample in samples])
    assert np.abs(scores.logp_N.detach().numpy() - behaviour_N).max() < 1e-5
    assert torch.isfinite(scores.entropy_N).all()
    assert scores.entropy_N.max() <= np.log(policy.vocabulary - len(policy.excluded)) + 1e-5


def test_the_text_has_every_sampled_token_except_the_end() -> None:
    samples = rollout(padded_policy(), count=16)
    assert {sample.finish for sample in samples} == {"stop", "length"}
    for sample in samples:
        ended = sample.finish == "stop"
        assert len(sample.text.split()) == len(sample.completion_ids) - ended


def test_a_copy_for_the_reference_excludes_the_same() -> None:
    policy = padded_policy(excluded=["<pad>", "5"])
    assert policy.with_model(policy.model).excluded == policy.excluded == (PAD, 8, *UNUSED)


def test_half_precision_logits() -> None:
    policy = tiny_policy(sharpness=1.0, dtype="float16")
    logits_V = policy.head(torch.zeros(1, 32, dtype=torch.float16))[0]
    assert logits_V.isneginf().nonzero()[:, 0].tolist() == [PAD, BOS]


# --- texts -----------------------------------------------------------------------------------------------------------


def test_sampled_special_tokens_are_in_the_text() -> None:
    """Markers for reasoning, tools and turns reach the verifier and the screen; the end token does not."""
    tokenizer = closed()
    tokenizer.add_special_tokens({"additional_special_tokens": ["4"]})
    assert tokenizer.decode([5, 7, 6, EOS], skip_special_tokens=True) == "2 3", "a special token"
    model = tiny_policy().model
    policy = CausalPolicy(model, tokenizer)
    assert policy.excluded == (PAD, BOS)
    assert policy.decode([5, 7, 6, EOS]) == "2 4 3"
    assert policy.decode(np.asarray([EOS], np.int32)) == ""


def test_an_example_with_an_excluded_token_is_rejected() -> None:
    """The log-prob of an excluded token would be minus infinity."""
    with pytest.raises(PolicyError, match=r"task t: .*'<bos>'.*never sampled.*model\.excluded_tokens"):
        tiny_policy().sample_from_text(Task("t", "1"), "2 <bos> 3", SampleKey(0, 0, 0, 0))
