"""An exported model loads without Steelyard and gives the same logits as the policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

import steelyard
from tests.tiny import tiny_policy

from .conftest import Call

IDS = torch.tensor([[4, 5, 6, 7, 8]])
SETTINGS: dict[str, Any] = {
    "tasks": [f"{a} {b}" for a in range(4) for b in range(3)],
    "verifier": lambda task, text: len(set(text.split())) / 4,
    "sampling": {"tasks_per_step": 2, "group_size": 4, "max_new_tokens": 4},
    "optimiser": {"lr": 0.05},
    "tracking": {"console": False},
    "verify": {"pool": "inline"},
}

WORDS = {"vocabulary": [*"0123456789-"], "spaced": False}
SMALL = {"scratch": {"layers": 1, "width": 32, "heads": 2, "max_length": 32, **WORDS}}


@pytest.fixture
def base(folder: Path) -> str:
    tiny_policy(sharpness=2.0).save_pretrained(folder / "base")
    return "base"


def train(model: dict[str, Any], **more: Any) -> Any:
    return steelyard.train(model=model, **{**SETTINGS, "run": {"steps": 3, "name": "x"}, **more})


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=IDS).logits


@pytest.mark.parametrize("dora", [False, True])
def test_a_merged_adapter_is_a_plain_model_with_the_same_logits(base: str, dora: bool, call: Call) -> None:
    lora: dict[str, Any] = {"rank": 4}
    if dora:
        lora = {"adapter": dora_adapter(base)}
    run = train({"path": base, "lora": lora})
    exported = call("export", "runs/x", "--out", "whole", "--merge")
    assert exported.code == 0, exported.err
    assert "at step 3, a complete model with the adapter merged" in exported.out
    whole: Any = AutoModelForCausalLM.from_pretrained("whole")
    assert not list(Path("whole").glob("adapter*"))
    assert torch.allclose(logits(whole), logits(run.policy.model), atol=1e-5)
    start: Any = AutoModelForCausalLM.from_pretrained(base)
    assert (logits(whole) - logits(start)).abs().max() > 1e-2, "training has changed the weights"
    assert whole.generation_config.suppress_tokens == list(run.policy.excluded)

    alone = call("export", "runs/x", "--out", "adapter")
    assert "a PEFT adapter" in alone.out
    assert "steelyard export runs/x --merge --out adapter-merged" in alone.out
    assert torch.allclose(logits(PeftModel.from_pretrained(start, "adapter")), logits(whole), atol=1e-5)


def dora_adapter(base: str) -> str:
    from peft import LoraConfig, get_peft_model

    model: Any = AutoModelForCausalLM.from_pretrained(base)
    options = LoraConfig(r=4, target_modules="all-linear", use_dora=True, task_type="CAUSAL_LM")
    get_peft_model(model, options).save_pretrained("dora")
    return "dora"


def test_merging_keeps_bfloat16_unless_float32_is_requested(base: str, call: Call) -> None:
    run = train({"path": base, "dtype": "bfloat16", "lora": {"rank": 4}})
    assert call("export", "runs/x", "--out", "narrow", "--merge").code == 0
    assert call("export", "runs/x", "--out", "wide", "--merge", "--model.dtype", "float32").code == 0
    narrow: Any = AutoModelForCausalLM.from_pretrained("narrow")
    wide: Any = AutoModelForCausalLM.from_pretrained("wide")
    assert {parameter.dtype for parameter in narrow.parameters()} == {torch.bfloat16}
    assert {parameter.dtype for parameter in wide.parameters()} == {torch.float32}
    assert torch.allclose(logits(wide), logits(run.policy.model).float(), atol=0.2, rtol=0.05)


def test_a_run_without_lora_exports_a_complete_model(call: Call) -> None:
    run = train(SMALL, constraint={"kind": "regex", "source": "[0-9](-[0-9]){0,2}"}, tasks=["1", "2-3"])
    refused = call("export", "runs/x", "--out", "whole", "--merge")
    assert refused.code == 2
    assert "--merge: the run trained all weights" in refused.err
    assert not Path("whole").exists()
    exported = call("export", "runs/x", "--out", "whole", "--checkpoint", "3")
    assert exported.code == 0, exported.err
    whole: Any = AutoModelForCausalLM.from_pretrained("whole")
    assert torch.equal(logits(whole), logits(run.policy.model))
    assert "start: /" in Path("whole/constraint.lark").read_text()
    assert "constraint.lark" in exported.out

    taken = call("export", "runs/x", "--out", "whole")
    assert taken.code == 2
    assert "already exists" in taken.err
    nowhere = call("export", "runs/y", "--out", "z")
    assert nowhere.code == 2
    assert "not a run folder" in nowhere.err
