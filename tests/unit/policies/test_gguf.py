"""Models from GGUF files, loaded by path, trained and saved like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from steelyard.errors import PolicyError
from steelyard.memory.model_shape import read_shape
from steelyard.policies.adapters import Lora
from steelyard.policies.loading import PolicyOptions, pretrained_policy
from tests.gguf_files import write_gguf

pytest.importorskip("gguf", reason="the extra gguf is not installed")
CPU = PolicyOptions(device="cpu")


@pytest.fixture
def file(tmp_path: Path) -> tuple[Path, Any]:
    shape = LlamaConfig(
        vocab_size=262, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(3)
    model = LlamaForCausalLM(shape)
    return write_gguf(tmp_path / "tiny.gguf", model), model


def test_a_gguf_file_opens_as_a_model(
    file: tuple[Path, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, model = file
    capfd.readouterr()
    policy = pretrained_policy(str(path), CPU)
    assert "Converting" not in capfd.readouterr().err, "no progress bar without a terminal"
    ids = torch.tensor([[5, 9, 200, 17]])
    assert torch.allclose(policy.model(input_ids=ids).logits, model(input_ids=ids).logits, atol=1e-5)
    assert policy.decode(policy.encode("hé 1")) == "hé 1"
    assert sum(1 for _ in policy.trainable()) > 10, "all weights are trainable"

    policy.save_pretrained(tmp_path / "saved")
    again: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
    assert torch.equal(again(input_ids=ids).logits, policy.model(input_ids=ids).logits)
    assert not hasattr(again.config, "quantization_config")
    assert read_shape(str(path)).parameters == sum(parameter.numel() for parameter in model.parameters())


def test_an_adapter_names_the_file_as_its_base(file: tuple[Path, Any], tmp_path: Path) -> None:
    policy: Any = pretrained_policy(str(file[0]), PolicyOptions(device="cpu", lora=Lora(rank=2)))
    assert policy.model.peft_config["default"].base_model_name_or_path == str(file[0])


def test_files_that_cannot_be_opened_get_a_solution(file: tuple[Path, Any], tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"missing\.gguf'.*no such file.*hf download"):
        pretrained_policy(str(tmp_path / "missing.gguf"), CPU)
    (tmp_path / "text.gguf").write_text("not a model", encoding="utf-8")
    with pytest.raises(PolicyError, match=r"text\.gguf' cannot be loaded"):
        pretrained_policy(str(tmp_path / "text.gguf"), CPU)
    with pytest.raises(PolicyError, match=r"model.quantize = '4bit'.*remove it"):
        pretrained_policy(str(file[0]), PolicyOptions(device="cpu", quantize="4bit", lora=Lora(rank=2)))
