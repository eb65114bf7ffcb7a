"""LoRA by PEFT: one trained adapter, and where needed a second, frozen one that serves as reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from torch import Tensor
from transformers import PreTrainedModel

from steelyard.errors import PolicyError

TRAINED, FROZEN = "default", "reference"


@dataclass(frozen=True, slots=True)
class Lora:
    """LoRA (arXiv 2106.09685): W + (alpha / rank) B A with A, B trained; dropout is always 0 here."""

    rank: int = 64
    alpha: float = 32
    targets: str | Sequence[str] = "all-linear"

    def peft_config(self, *, causal: bool = True) -> LoraConfig:
        targets = self.targets if isinstance(self.targets, str) else list(self.targets)
        return LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,  # pyright: ignore[reportArgumentType] - a fraction is fine
            target_modules=targets,
            lora_dropout=0.0,
            task_type=TaskType.CAUSAL_LM if causal else None,
        )


def add_adapter(model: PreTrainedModel, lora: Lora, seed: int, *, causal: bool = True) -> PeftModel:
    """A fresh adapter drawn from ``seed``; its B is 0, so the model starts as its base."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_peft_model(model, lora.peft_config(causal=causal))


def open_adapter(model: PreTrainedModel, folder: Path | str) -> PeftModel:
    """Go on with a trained adapter."""
    return PeftModel.from_pretrained(model, folder, is_trainable=True)


def base_model(model: Any) -> Any:
    """The transformers model under an adapter, or the model itself."""
    return model.get_base_model() if isinstance(model, PeftModel) else model


def rank_of(model: PeftModel) -> int:
    """The largest rank of the trained adapter."""
    trained = model.peft_config[TRAINED]
    return max([trained.r, *trained.rank_pattern.values()])  # pyright: ignore[reportAttributeAccessIssue]


def save_options(model: Any) -> dict[str, Any]:
    """The reference adapter is saved by the reference, not with the policy."""
    return {"selected_adapters": [TRAINED]} if isinstance(model, PeftModel) else {}


def adapter_tensors(model: PeftModel, name: str) -> dict[str, Tensor]:
    """Parameters of one adapter under names that do not say which adapter it is."""
    marker = f".{name}."
    return {key.replace(marker, "."): p for key, p in model.named_parameters() if marker in key}


def add_frozen_copy(model: PeftModel) -> None:
    """A second adapter equal to the trained one."""
    model.add_adapter(FROZEN, model.peft_config[TRAINED])
    copy_adapter(model)
    model.set_adapter(TRAINED)
    for parameter in adapter_tensors(model, FROZEN).values():
        parameter.requires_grad_(False)


@torch.no_grad()
def copy_adapter(model: PeftModel) -> None:
    trained, frozen = adapter_tensors(model, TRAINED), adapter_tensors(model, FROZEN)
    for name, parameter in frozen.items():
        parameter.copy_(trained[name])


@contextmanager
def frozen_active(model: PeftModel) -> Iterator[None]:
    """Run with the reference adapter in the trained one's place."""
    model.set_adapter(FROZEN, inference_mode=True)
    try:
        yield
    finally:
        model.set_adapter(TRAINED)


@torch.no_grad()
def plain_tensors(
    model: Any, *, merged: bool = True, rounded: torch.dtype | None = None
) -> Iterator[tuple[str, Tensor]]:
    """The weights as a model without an adapter has them, under its names: W + (alpha / rank) B A where the trained
    adapter is, one matrix at a time; not ``merged``: W alone. Weights that are tied come once.

    A sum has the wider type of its two parts, or is ``rounded`` to the one that its reader keeps.
    """
    base, seen = base_model(model), set[int]()
    for name, tensor in base.state_dict().items():
        layer, _, part = name.partition(".base_layer.")
        if tensor.data_ptr() in seen or ".lora_" in name:
            continue
        seen.add(tensor.data_ptr())
        if not part:
            yield name, tensor
        elif not tensor.is_floating_point():
            raise PolicyError(f"{layer} is quantised ({tensor.dtype}): its weights cannot be handed to another engine")
        elif merged and part == "weight":
            whole = tensor + base.get_submodule(layer).get_delta_weight(TRAINED)
            yield f"{layer}.weight", whole.to(rounded or whole.dtype)
        else:
            yield f"{layer}.{part}", tensor
