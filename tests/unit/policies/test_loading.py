"""Building policies: from scratch, from a folder, with an adapter, quantised; and rejected options."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from steelyard.errors import MissingExtraError, PolicyError
from steelyard.policies import loading
from steelyard.policies.adapters import Lora
from steelyard.policies.device import choose_device, choose_dtype
from steelyard.policies.judge import build_judge
from steelyard.policies.loading import choose_attention, from_scratch_policy, pretrained_policy
from steelyard.policies.scratch import Architecture, closed_vocabulary_tokenizer, scratch_model
from tests.tiny import CPU, SHAPE, WORDS, gradients_of, rollout, tiny_learner, tiny_policy, weights_of, with_advantages

LORA = Lora(4, 8)
KERNEL = {"attn_implementation": "owner/kernel"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("model")
    tiny_policy(shape=replace(SHAPE, width=64, feed_forward=128)).save_pretrained(where)
    return where


# --- from scratch ----------------------------------------------------------------------------------------------------


def test_weights_are_a_function_of_the_seed() -> None:
    before = torch.get_rng_state()
    one, same, other = (from_scratch_policy(SHAPE, WORDS, replace(CPU, seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before), "torch's global generator is unchanged"
    name = "model.layers.0.self_attn.q_proj.weight"
    assert torch.equal(weights_of(one)[name], weights_of(same)[name])
    assert not torch.equal(weights_of(one)[name], weights_of(other)[name])


def test_a_new_adapter_equals_the_base_and_depends_on_its_seed() -> None:
    base, one, same, other = (
        tiny_policy(),
        *(from_scratch_policy(SHAPE, WORDS, replace(CPU, lora=LORA, seed=s)) for s in (2, 2, 3)),
    )
    a = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight"
    assert torch.equal(weights_of(one)[a], weights_of(same)[a])
    assert not torch.equal(weights_of(one)[a], weights_of(other)[a])
    tuned = tiny_policy(lora=LORA)
    batch = base.collate(rollout(base))
    torch.testing.assert_close(tuned.evaluate(batch).logp_N, base.evaluate(batch).logp_N, rtol=0, atol=1e-6)
    assert all("lora" in name for name, _ in tuned.trainable())


def test_the_architecture_is_as_configured() -> None:
    shape = Architecture(3, 48, 4, 2, max_length=40, tie_embeddings=False)
    model = scratch_model(shape, closed_vocabulary_tokenizer(WORDS), 0)
    config = model.config
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (3, 48, 4)
    assert (config.num_key_value_heads, config.max_position_embeddings, config.intermediate_size) == (2, 40, 128)
    assert model.get_output_embeddings().weight is not model.get_input_embeddings().weight
    assert (config.vocab_size, config.eos_token_id, model.generation_config.eos_token_id) == (16, 2, 2)
    assert replace(shape, feed_forward=77).feed_forward_width == 77


def test_the_closed_vocabulary_is_whole_words() -> None:
    tokenizer = closed_vocabulary_tokenizer(["<bos>", "red", "brick", "10"])
    assert tokenizer.convert_tokens_to_ids(["<pad>", "<bos>", "<eos>", "red", "brick", "10"]) == [0, 1, 2, 3, 4, 5]
    ids = tokenizer.encode("10 red  brick\nred")
    assert ids == [5, 3, 4, 3]
    assert tokenizer.decode([*ids, 2], skip_special_tokens=True) == "10 red brick red"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["a", "b", "a"], "duplicates"),
        (["a", ""], "empty tokens or tokens with whitespace"),
        (["a b"], "empty tokens or tokens with whitespace"),
    ],
)
def test_vocabularies_that_cannot_work(words: list[str], complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint):
        closed_vocabulary_tokenizer(words)


def test_a_word_outside_the_vocabulary_is_named() -> None:
    """An unknown word in a prompt must not be dropped silently."""
    with pytest.raises(PolicyError, match="zebra"):
        tiny_policy().encode("1 zebra 2")


# --- from a folder ---------------------------------------------------------------------------------------------------


def test_a_folder_is_opened(folder: Path) -> None:
    policy = pretrained_policy(str(folder), CPU)
    assert policy.model.dtype == torch.float32
    assert largest_gap(policy) < 1e-5


def largest_gap(policy: loading.CausalPolicy) -> float:
    samples = rollout(policy, count=2)
    logp_N = policy.evaluate(policy.collate(samples)).logp_N.detach().numpy()
    return float(np.abs(logp_N - np.concatenate([sample.decisions.logp_N for sample in samples])).max())


def test_a_missing_folder_is_named() -> None:
    with pytest.raises(PolicyError, match=r"model.path '/no/such/model' cannot be loaded"):
        pretrained_policy("/no/such/model", CPU)


@pytest.mark.parametrize("asked", [KERNEL, {"text_config": KERNEL}])
def test_a_hub_kernel_in_a_model_configuration_is_rejected(folder: Path, tmp_path: Path, asked: dict[str, Any]) -> None:
    shutil.copytree(folder, tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | asked))
    for opened in (
        lambda: pretrained_policy(str(path.parent), CPU),
        lambda: build_judge(str(path.parent), "likelihood"),
    ):
        with pytest.raises(PolicyError, match="owner/kernel"):
            opened().model  # noqa: B018 - a judge loads its model on first use


def test_training_continues_from_an_adapter(folder: Path, tmp_path: Path) -> None:
    """The adapter's dropout is disabled."""
    first = pretrained_policy(str(folder), replace(CPU, lora=LORA))
    tiny_learner(first).update(with_advantages(rollout(first, count=2)), 0)
    first.model.peft_config["default"].lora_dropout = 0.5
    first.save_pretrained(tmp_path)
    second = pretrained_policy(str(folder), replace(CPU, adapter=str(tmp_path)))
    batch = first.collate(rollout(first))
    second.train(True)
    torch.testing.assert_close(second.evaluate(batch).logp_N, first.evaluate(batch).logp_N, rtol=0, atol=1e-6)
    assert [name for name, _ in second.trainable()] == [name for name, _ in first.trainable()]


# --- quantised -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "near"), [("8bit", 0.05), ("4bit", 0.5)])
def test_quantised_weights_under_lora_learn_on_the_cpu(folder: Path, bits: str, near: float) -> None:
    pytest.importorskip("bitsandbytes")
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    plain = pretrained_policy(str(folder), replace(CPU, lora=LORA))
    policy = pretrained_policy(str(folder), replace(CPU, lora=LORA, quantize=bits))
    held = {parameter.dtype for name, parameter in policy.model.named_parameters() if "q_proj.base_layer" in name}
    assert held == {"8bit": {torch.int8}, "4bit": {torch.uint8}}[bits]
    items = with_advantages(rollout(plain))
    batch = plain.collate([item.sample for item in items])
    with torch.no_grad():
        gap = (policy.evaluate(batch).logp_N - plain.evaluate(batch).logp_N).abs().mean()
    assert 0 < float(gap) < near
    wanted = gradients_of(tiny_learner(plain), items)
    found = gradients_of(tiny_learner(policy), items)
    rollout(policy, count=2)  # bitsandbytes may repack weights in eval mode
    again = gradients_of(tiny_learner(policy), items)
    for gradients in (found, again):
        flat = [torch.cat([tensors[name].flatten() for name in wanted]) for tensors in (gradients, wanted)]
        assert float(torch.nn.functional.cosine_similarity(*flat, dim=0)) > 0.9
    learner = tiny_learner(policy)
    before = weights_of(policy)
    assert learner.update(items, 0)["skipped"] == 0
    changed = {name for name, weight in weights_of(policy).items() if not torch.equal(weight, before[name])}
    assert changed
    assert all("lora" in name for name in changed)


def test_quantised_weights_without_lora_are_rejected(folder: Path) -> None:
    with pytest.raises(PolicyError, match=r"model\.quantize.*add \[model\.lora\]"):
        pretrained_policy(str(folder), replace(CPU, quantize="4bit"))


def test_a_missing_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "bitsandbytes", None)
    with pytest.raises(MissingExtraError, match=r"model.quantize = '4bit'.*steelyard\[bitsandbytes\]"):
        pretrained_policy(str(folder), replace(CPU, quantize="4bit", lora=LORA))


# --- device, data type, attention ------------------------------------------------------------------------------------


def test_devices_are_chosen_in_order_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")
    with pytest.raises(PolicyError, match=r"'cuda', but this machine has only cpu; set device = \"auto\""):
        choose_device("cuda")
    with pytest.raises(PolicyError, match="'tpu'"):
        choose_device("tpu")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("auto") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == torch.device("cuda")
    assert choose_device("cuda:1") == torch.device("cuda:1")


def test_number_formats_are_checked() -> None:
    assert choose_dtype("bfloat16") == torch.bfloat16
    with pytest.raises(PolicyError, match=r"'float8'.*choose one of float32, bfloat16"):
        choose_dtype("float8")


def test_attention_is_fused_except_for_bfloat16_updates_on_a_cpu() -> None:
    model = tiny_policy().model
    assert choose_attention("auto", model) == ("sdpa", "sdpa")
    assert choose_attention("eager", model) == ("eager", "eager")
    assert choose_attention("auto", model.to(torch.bfloat16)) == ("sdpa", "eager")
    assert tiny_policy(attention="eager").model.config._attn_implementation == "eager"
