"""Masked policies: holes, allowed fills, and log-probs equal to the complete model's."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, RobertaConfig, RobertaForMaskedLM

from steelyard.constraints.base import members
from steelyard.errors import PolicyError
from steelyard.policies.adapters import Lora
from steelyard.policies.loading import PolicyOptions, pretrained_policy
from steelyard.policies.masked import MaskedPolicy
from steelyard.policies.reference import CopyReference
from steelyard.policies.scratch import Architecture, closed_vocabulary_tokenizer, scratch_masked_model
from steelyard.types import HOLE, SampleKey, Task
from tests.tiny import rollout, tiny_policy

KEY = SampleKey(0, 0, 0, 0)
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
MASKED = PolicyOptions(kind="masked", device="cpu")


@pytest.fixture(scope="module")
def policy() -> MaskedPolicy:
    return tiny_policy(kind="masked")


def foreign(kind: str, tokenizer: Any) -> Any:
    torch.manual_seed(0)
    common = {"vocab_size": len(tokenizer), "pad_token_id": 0, "max_position_embeddings": 64, **SIZES}
    if kind == "bert":
        return BertForMaskedLM(BertConfig(**common))
    return RobertaForMaskedLM(RobertaConfig(**common))


def test_every_hole_is_one_mask(policy: MaskedPolicy) -> None:
    ids = policy.encode(f"1 {HOLE} 3 {HOLE}{HOLE}")
    assert (ids == policy.mask_id).tolist() == [False, True, False, True, True]
    with pytest.raises(PolicyError, match=r"chat messages.*pass a string"):
        policy.encode(({"role": "user", "content": "1"},))
    with pytest.raises(PolicyError, match="closed vocabulary"):
        policy.encode("1 x")


def test_special_and_forbidden_tokens_are_not_allowed(policy: MaskedPolicy) -> None:
    own = policy.tokenizer.get_vocab()
    allowed = set(members(policy.allowed(Task("t", HOLE))).tolist())
    assert allowed == {number for token, number in own.items() if token not in ("<pad>", "<bos>", "<eos>", "<mask>")}
    fewer = set(members(policy.allowed(Task("t", HOLE, {"forbidden": ["1", "2"]}))).tolist())
    assert allowed - fewer == {own["1"], own["2"]}
    with pytest.raises(PolicyError, match=r"forbids \['x'\]"):
        policy.allowed(Task("t", HOLE, {"forbidden": ["x"]}))


def test_an_example_fills_all_holes_in_one_pass(policy: MaskedPolicy) -> None:
    sample = policy.sample_from_text(Task("t", f"1 {HOLE} 3 {HOLE}"), "1 2 3 4", KEY)
    assert sample.prompt_length == 4
    assert policy.decode(sample.completion_ids) == "1 2 3 4"
    assert sample.decisions.position_N.tolist() == [5, 7]
    for wrong in ("1 2 4 4", "1 2 3", "1 2 3 4 5"):
        with pytest.raises(PolicyError, match="does not fill"):
            policy.sample_from_text(Task("t", f"1 {HOLE} 3 {HOLE}"), wrong, KEY)
    with pytest.raises(PolicyError, match="forbidden or special token"):
        policy.sample_from_text(Task("t", f"1 {HOLE}", {"forbidden": ["2"]}), "1 2", KEY)


@pytest.mark.parametrize("kind", ["modernbert", "bert", "roberta"])
def test_log_probs_equal_those_of_the_complete_model(kind: str, policy: MaskedPolicy) -> None:
    """A batch contains texts of different lengths; padding must not be attended to."""
    own = policy if kind == "modernbert" else MaskedPolicy(foreign(kind, policy.tokenizer), policy.tokenizer)
    pairs = [(f"1 {HOLE} 3", "1 2 3"), (f"{HOLE} {HOLE} 5 6 7 8 9", "3 4 5 6 7 8 9")]
    samples = [own.sample_from_text(Task("t", masked), text, KEY) for masked, text in pairs]
    found = own.evaluate(own.collate(samples))
    expected: list[float] = []
    allowed = torch.tensor(members(own.allowed(Task("t", HOLE))))
    for sample, (masked, _) in zip(samples, pairs, strict=True):
        ids = torch.tensor(own.encode(masked)[None], dtype=torch.long)
        with torch.no_grad():
            logits_TV = own.model(input_ids=ids).logits[0]
        for place in np.flatnonzero(own.encode(masked) == own.mask_id):
            logp_S = logits_TV[place, allowed].log_softmax(0)
            expected.append(float(logp_S[(allowed == int(sample.completion_ids[place])).nonzero()[0, 0]]))
    assert found.logp_N.tolist() == pytest.approx(expected, abs=1e-5)
    found.logp_N.sum().backward()
    assert all(parameter.grad is not None for parameter in own.model.parameters())
    own.model.zero_grad()


@pytest.mark.parametrize("kind", ["modernbert", "bert", "roberta"])
def test_a_text_of_the_maximum_length_fits(kind: str, policy: MaskedPolicy) -> None:
    own = policy if kind == "modernbert" else MaskedPolicy(foreign(kind, policy.tokenizer), policy.tokenizer)
    expected = {"modernbert": 128, "bert": 64, "roberta": 63}[kind]
    assert own.max_length == expected
    ids = torch.full((1, expected), 5)
    with torch.no_grad():
        assert own.model(input_ids=ids).logits.shape[1] == expected
        if kind != "modernbert":
            with pytest.raises((IndexError, RuntimeError)):
                own.model(input_ids=torch.full((1, expected + 1), 5))


def test_equal_inputs_are_run_once(policy: MaskedPolicy) -> None:
    samples = [policy.sample_from_text(Task("t", f"1 {HOLE}"), f"1 {digit}", KEY) for digit in range(5)]
    batch = policy.collate(samples)
    assert batch.input_ids.shape == (1, 2)
    assert batch.sample_N.tolist() == [0, 1, 2, 3, 4]


def test_a_policy_from_a_folder_scores_the_same(policy: MaskedPolicy, tmp_path: Path) -> None:
    samples = rollout(policy)
    expected = policy.evaluate(policy.collate(samples)).logp_N
    policy.save_pretrained(tmp_path)
    opened = pretrained_policy(str(tmp_path), MASKED)
    assert torch.equal(opened.evaluate(opened.collate(samples)).logp_N, expected)
    lora = pretrained_policy(str(tmp_path), PolicyOptions(kind="masked", device="cpu", lora=Lora(2, 4)))
    assert torch.allclose(lora.evaluate(lora.collate(samples)).logp_N, expected, atol=1e-6)
    assert all("lora" in name for name, _ in lora.trainable())


def test_a_reference_is_masked_too(policy: MaskedPolicy) -> None:
    samples = rollout(policy)
    batch, reference = policy.collate(samples), CopyReference(policy)
    with torch.no_grad():
        scores = policy.evaluate(batch, reference)
    assert scores.kl_N is not None
    assert float(scores.kl_N.abs().max()) < 1e-6
    assert torch.allclose(reference.logp(batch), scores.logp_N, atol=1e-6)


def test_a_model_without_a_mask_token_is_rejected(policy: MaskedPolicy) -> None:
    with pytest.raises(PolicyError, match="no mask_token"):
        MaskedPolicy(policy.model, tiny_policy().tokenizer)


def test_the_slowest_rotary_pair_makes_half_a_turn_over_the_longest_text() -> None:
    size = Architecture(layers=1, width=64, heads=2, max_length=200)
    model = scratch_masked_model(size, closed_vocabulary_tokenizer("ab", spaced=False, masks=True), seed=0)
    slowest = float(model.model.rotary_emb.full_attention_inv_freq[-1])
    assert slowest * size.max_length == pytest.approx(math.pi, rel=1e-5)
    assert float(model.model.layers[0].attn.Wqkv.weight.detach().std()) == pytest.approx(64**-0.5, rel=0.2)
