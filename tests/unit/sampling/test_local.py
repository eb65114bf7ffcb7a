"""The local sampler: draws, recorded values and amount of computation."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from steelyard.errors import PolicyError
from steelyard.policies.causal import CausalPolicy
from steelyard.policies.scratch import closed_vocabulary_tokenizer
from steelyard.sampling.base import Decoding, SampleRequest
from steelyard.sampling.local import LocalSampler, has_alibi
from steelyard.types import CutRule, Sample, SampleKey, Task
from tests.tiny import KINDS, WORDS, requests, rollout, sample_of, support_sets, tasks, tiny_policy

LENGTH = 12
RULES = [CutRule(*values) for values in itertools.product((1.0, 0.7, 1.6), (0, 1, 5), (1.0, 0.8), (0.0, 0.1))]


@pytest.fixture(scope="module")
def policy() -> CausalPolicy:
    return tiny_policy()


@pytest.fixture(scope="module")
def policies(policy: CausalPolicy) -> dict[str, Any]:
    return {"causal": policy, "masked": tiny_policy(kind="masked")}


def largest_gap(policy: Any, samples: list[Sample]) -> float:
    """Return max |log-prob of the learner - log-prob of the sampler|."""
    policy.train(True)
    decided = [sample for sample in samples if len(sample.decisions)]
    if not decided:
        return 0.0
    logp_N = policy.evaluate(policy.collate(decided)).logp_N.detach().numpy()
    return float(np.abs(logp_N - np.concatenate([sample.decisions.logp_N for sample in decided])).max())


def drawn_tokens(samples: list[Sample]) -> list[tuple[SampleKey, list[int]]]:
    return [(sample.key, sample.token_ids.tolist()) for sample in samples]


@contextmanager
def forward_shapes(policy: CausalPolicy) -> Iterator[list[tuple[int, ...]]]:
    """Record the shape of the token ids of every forward pass."""
    shapes: list[tuple[int, ...]] = []

    def note(_: Any, __: Any, kwargs: dict[str, Any]) -> None:
        shapes.append(tuple(kwargs["input_ids"].shape))

    handle = policy.body.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield shapes
    finally:
        handle.remove()


# --- parity ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_learner_reproduces_the_samplers_log_probs(kind: str, policies: dict[str, Any], rule: CutRule) -> None:
    samples = rollout(policies[kind], rule=rule, length=LENGTH)
    assert len({sample.prompt_length for sample in samples}) == 3, "ragged prompts"
    assert largest_gap(policies[kind], samples) < 1e-5


def test_the_batch_of_the_parity_test_is_ragged(policy: CausalPolicy) -> None:
    lengths = {len(sample.completion_ids) for sample in rollout(policy, length=LENGTH)}
    assert len(lengths) > 3


@pytest.mark.parametrize("wrong", [CutRule(1.1, 5, 0.8, 0.1), CutRule(1.0, 0, 1.0, 0.0)], ids=["temperature", "cut"])
def test_parity_would_notice_a_wrong_rule(policy: CausalPolicy, wrong: CutRule) -> None:
    """Scoring with a wrong temperature or without truncation gives differences far above noise."""
    samples = rollout(policy, rule=CutRule(1.0, 5, 0.8, 0.1), length=LENGTH)
    mistaken = [
        sample_of(
            sample.token_ids.tolist(),
            sample.prompt_length,
            decided=sample.decisions.position_N.tolist(),
            logp=sample.decisions.logp_N.tolist(),
            rule=wrong,
            supports=support_sets(sample) if wrong.cuts else None,
        )
        for sample in samples
    ]
    assert largest_gap(policy, mistaken) > 1e-2


# --- draws -----------------------------------------------------------------------------------------------------------


def test_the_same_call_gives_the_same_samples(policy: CausalPolicy) -> None:
    first, second = rollout(policy), rollout(policy)
    assert drawn_tokens(first) == drawn_tokens(second)
    for one, other in zip(first, second, strict=True):
        assert one.decisions.logp_N.tobytes() == other.decisions.logp_N.tobytes()


@pytest.mark.parametrize("change", [{"seed": 1}, {"step": 1}])
def test_another_seed_or_step_gives_other_samples(policy: CausalPolicy, change: dict[str, Any]) -> None:
    other = rollout(policy, **change)
    assert [tokens for _, tokens in drawn_tokens(rollout(policy))] != [tokens for _, tokens in drawn_tokens(other)]


def test_another_attempt_gives_other_samples(policy: CausalPolicy) -> None:
    sampler, (task, *_) = LocalSampler(policy, seed=0), tasks()
    made = [list(sampler.sample([SampleRequest(task, 0, 0, 4, attempt)], Decoding())) for attempt in (0, 1)]
    texts = [{sample.text for sample in samples} for samples in made]
    assert texts[0] != texts[1]


def test_the_samples_of_a_group_differ(policy: CausalPolicy) -> None:
    texts = [sample.text for sample in rollout(policy, count=8) if sample.key.slot == 0]
    assert len(set(texts)) > 4


def test_draws_do_not_touch_torchs_generator(policy: CausalPolicy) -> None:
    before = torch.get_rng_state()
    rollout(policy)
    assert torch.equal(before, torch.get_rng_state())


def test_no_grad_is_not_active_between_samples(policy: CausalPolicy) -> None:
    stream = LocalSampler(policy, seed=0).sample(requests(), Decoding(max_new_tokens=4))
    next(stream)
    assert torch.is_grad_enabled()


def test_samples_stream_as_they_finish(policy: CausalPolicy) -> None:
    lengths = [len(sample.completion_ids) for sample in LocalSampler(policy, seed=0).sample(requests(8), Decoding())]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


# --- records ---------------------------------------------------------------------------------------------------------


def test_a_sample_records_finish_reason_and_decisions(policy: CausalPolicy) -> None:
    sampler, eos = LocalSampler(policy, seed=0), policy.tokenizer.eos_token_id
    sampler.publish(7)
    samples = list(sampler.sample(requests(8), Decoding(max_new_tokens=LENGTH)))
    assert {sample.finish for sample in samples} == {"stop", "length"}
    for sample in samples:
        ids = sample.completion_ids
        assert sample.policy_version == 7
        assert (eos in ids[:-1]) is False
        assert (int(ids[-1]) == eos) is (sample.finish == "stop")
        assert sample.finish == "stop" or len(ids) == LENGTH
        assert sample.text == " ".join(policy.tokenizer.convert_ids_to_tokens(ids[ids > 2]))
        assert (
            sample.token_ids[: sample.prompt_length].tolist() == policy.encode(tasks()[sample.key.slot].prompt).tolist()
        )
        assert sample.decisions.position_N.tolist() == list(range(sample.prompt_length, len(sample.token_ids)))
        assert sample.decisions.forward_N.tolist() == list(range(len(ids)))


def test_an_end_token_at_the_limit_is_a_stop(policy: CausalPolicy) -> None:
    """The end token may be drawn exactly at the length limit."""
    limits = {len(s.completion_ids) for s in rollout(policy, count=8, length=LENGTH) if s.finish == "stop"}
    limit = min(limits)
    samples = rollout(policy, count=8, length=limit)
    assert any(sample.finish == "stop" and len(sample.completion_ids) == limit for sample in samples)


def test_top_1_makes_no_decisions(policy: CausalPolicy) -> None:
    for sample in rollout(policy, rule=CutRule(1.0, top_k=1)):
        assert len(sample.decisions) == 0
        assert len(sample.completion_ids)
        assert sample.decisions.supports is not None
        assert len(sample.decisions.supports) == 0


def test_tokens_without_a_choice_are_not_decisions(policy: CausalPolicy) -> None:
    """For a sharp distribution, min-p leaves one token at some positions and a choice at others."""
    samples = rollout(policy, rule=CutRule(0.5, min_p=0.3), length=LENGTH)
    decided = sum(len(sample.decisions) for sample in samples)
    written = sum(len(sample.completion_ids) for sample in samples)
    assert 0 < decided < written
    for sample in samples:
        supports, decisions = support_sets(sample), sample.decisions
        assert all(len(support) > 1 for support in supports)
        for support, position in zip(supports, decisions.position_N, strict=True):
            assert sample.token_ids[position] in support
    assert largest_gap(policy, samples) < 1e-5


def test_top_k_leaves_k_tokens(policy: CausalPolicy) -> None:
    sizes = {len(one) for sample in rollout(policy, rule=CutRule(1.0, 5)) for one in support_sets(sample)}
    assert sizes == {5}


# --- amount of computation -------------------------------------------------------------------------------------------


def test_each_prompt_is_processed_once(policy: CausalPolicy) -> None:
    with forward_shapes(policy) as shapes:
        rollout(policy, count=8)
    longest = max(len(policy.encode(task.prompt)) for task in tasks())
    assert shapes[0] == (3, longest), "three prompts, not 24 rows"
    assert all(shape[1] == 1 for shape in shapes[1:])


def test_finished_rows_leave_the_batch(policy: CausalPolicy) -> None:
    """Each draw computes only unfinished rows, plus finished rows that have not been compacted away yet."""
    with forward_shapes(policy) as shapes:
        samples = rollout(policy, count=16, length=24)
    written = [sum(len(sample.completion_ids) > place for sample in samples) for place in range(1, 24)]
    computed = [shape[0] for shape in shapes[1:]]
    assert len(computed) == sum(count > 0 for count in written)
    for rows, alive in zip(computed, written, strict=False):
        assert alive <= rows <= max(alive / 0.8, alive + 1)
    assert sum(computed) < 0.8 * 48 * len(computed), "far less than computing every row to the end"


def test_no_forward_pass_follows_the_last_draw(policy: CausalPolicy) -> None:
    with forward_shapes(policy) as shapes:
        samples = rollout(policy, count=2, length=1)
    assert len(shapes) == 1
    assert all(len(sample.completion_ids) == 1 for sample in samples)


@pytest.mark.parametrize("max_rows", [1, 3, 5, 12, 100])
def test_waves_cover_every_sample_once(policy: CausalPolicy, max_rows: int) -> None:
    with forward_shapes(policy) as shapes:
        samples = list(LocalSampler(policy, seed=0, max_rows=max_rows).sample(requests(4), Decoding(max_new_tokens=6)))
    assert Counter((sample.key.slot, sample.key.sample) for sample in samples) == Counter(
        itertools.product(range(3), range(4))
    )
    assert max(shape[0] for shape in shapes) <= max_rows
    assert largest_gap(policy, samples) < 1e-5


def test_the_draws_of_a_row_do_not_depend_on_its_batch(policy: CausalPolicy) -> None:
    """Uniforms depend only on the key; on this model (no near ties) different batch shapes draw the same tokens."""
    whole = rollout(policy)
    waves = sorted(
        LocalSampler(policy, seed=0, max_rows=5).sample(requests(), Decoding(max_new_tokens=12)), key=lambda s: s.key
    )
    assert drawn_tokens(whole) == drawn_tokens(waves)


# --- prompts ---------------------------------------------------------------------------------------------------------


def test_two_steps_in_one_call_keep_their_own_prompts(policy: CausalPolicy) -> None:
    """Requests of different steps may share a slot (replay, asynchronous steps)."""
    first, second = Task("a", "1 2"), Task("b", "3 4 5")
    made = LocalSampler(policy, seed=0).sample(
        [SampleRequest(first, 0, 0, 2), SampleRequest(second, 1, 0, 2)], Decoding()
    )
    for sample in made:
        prompt = (first, second)[sample.key.step].prompt
        assert sample.token_ids[: sample.prompt_length].tolist() == policy.encode(prompt).tolist()


def test_a_prompt_that_does_not_fit_is_rejected_by_name(policy: CausalPolicy) -> None:
    task = Task("long one", " ".join("1" * 120))
    with pytest.raises(PolicyError, match=r"long one: a prompt of 120 tokens.*max_new_tokens = 12 .*128 positions"):
        list(LocalSampler(policy, seed=0).sample([SampleRequest(task, 0, 0, 2)], Decoding(max_new_tokens=12)))


def test_no_requests_no_samples(policy: CausalPolicy) -> None:
    assert list(LocalSampler(policy, seed=0).sample([], Decoding())) == []


# --- other policies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{"lora": True}, {"gradient_checkpointing": True}, {"attention": "eager"}, {"dtype": "float64"}],
    ids=str,
)
def test_parity_of_other_policies(options: dict[str, Any]) -> None:
    from steelyard.policies.adapters import Lora

    if options.pop("lora", False):
        options["lora"] = Lora(4, 8)
    policy = tiny_policy(**options)
    with torch.no_grad():
        for name, parameter in policy.trainable():
            if "lora_B" in name:
                parameter.normal_(generator=torch.Generator().manual_seed(0))
    assert largest_gap(policy, rollout(policy, rule=CutRule(0.9, 8, 0.95))) < 1e-5


@pytest.mark.parametrize("options", [{"dtype": "bfloat16"}, {"autocast": "bfloat16"}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_log_probs_are_close(kind: str, options: dict[str, Any]) -> None:
    """Sampler and learner use different kernels, so bfloat16 differs by rounding; a wrong rule differs by far more."""
    policy = tiny_policy(sharpness=5.0, kind=kind, **options)
    samples = rollout(policy)
    assert all(sample.decisions.logp_N.dtype == np.float32 for sample in samples)
    assert largest_gap(policy, samples) < 0.3


# --- architectures that cannot be sampled ----------------------------------------------------------------------------

SMALL = {"vocab_size": 16, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "pad_token_id": 0}
SMALL_OF: dict[str, dict[str, Any]] = {
    "mamba": {"state_size": 4},
    "lfm2": {"layer_types": ["conv", "full_attention"], "num_key_value_heads": 1, "intermediate_size": 64},
    "jamba": {
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
        "use_mamba_kernels": False,
        "mamba_d_state": 4,
        "num_key_value_heads": 1,
        "intermediate_size": 64,
        "num_experts": 2,
        "num_experts_per_tok": 1,
    },
    "bloom": {"n_layer": 2, "n_head": 2},
    "mpt": {"d_model": 32, "n_heads": 2, "n_layers": 2, "max_seq_len": 64},
}


def policy_of(architecture: str) -> CausalPolicy:
    config = AutoConfig.for_model(architecture, **(SMALL | SMALL_OF[architecture]), bos_token_id=1, eos_token_id=2)
    return CausalPolicy(AutoModelForCausalLM.from_config(config), closed_vocabulary_tokenizer(WORDS))


@pytest.mark.parametrize("architecture", ["mamba", "lfm2", "jamba"])
def test_models_with_a_recurrent_state_are_rejected_at_the_start(architecture: str) -> None:
    with pytest.raises(PolicyError, match=rf"'{architecture}'.*state.*sampling\.engine = 'vllm'"):
        LocalSampler(policy_of(architecture), seed=0)


@pytest.mark.parametrize("architecture", ["bloom", "mpt"])
def test_alibi_is_rejected_under_a_constraint_only(architecture: str) -> None:
    policy = policy_of(architecture)
    LocalSampler(policy, seed=0)
    policy.constraint = object()  # type: ignore[assignment]
    with pytest.raises(PolicyError, match=rf"'{architecture}'.*ALiBi.*remove the constraint"):
        LocalSampler(policy, seed=0)


def test_falcon_has_alibi_only_if_configured() -> None:
    assert has_alibi(AutoConfig.for_model("falcon", alibi=True))
    assert not has_alibi(AutoConfig.for_model("falcon", alibi=False))
    assert not has_alibi(AutoConfig.for_model("llama"))
