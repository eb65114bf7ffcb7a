"""LoRA with PEFT: one trained adapter and, if needed, a second, frozen adapter as the reference."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn
from transformers import PreTrainedModel

from steelyard import defaults
from steelyard.errors import PolicyError

TRAINED, FROZEN = "default", "reference"

TRAINS_MORE = (
    "modules_to_save",
    "trainable_token_indices",
    "target_parameters",
    "layer_replication",
    "lora_bias",
)
"""Options of PEFT's ``LoraConfig`` that affect more than the A and B matrices of adapted layers."""


@dataclass(frozen=True, slots=True)
class Lora:
    """LoRA (arXiv 2106.09685): W + (alpha / rank) B A with trained A and B; dropout is always 0."""

    rank: int = defaults.LORA_RANK
    alpha: float = defaults.LORA_ALPHA
    targets: str | Sequence[str] = defaults.LORA_TARGETS

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
    """Add a new adapter initialised from ``seed``. B starts at 0, so the model initially equals its base."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_peft_model(model, lora.peft_config(causal=causal))


def open_adapter(model: PreTrainedModel, folder: Path | str) -> PeftModel:
    """Load a trained adapter for further training."""
    return PeftModel.from_pretrained(model, folder, is_trainable=True)


def require_supported(model: Any) -> None:
    """Raise if the model has an adapter other than LoRA or DoRA on base layers. Other kinds cannot be duplicated as a
    reference or merged into the base weights for another engine.
    """
    if not isinstance(model, PeftModel):
        return
    if TRAINED not in model.peft_config:
        raise PolicyError(f"the adapter is named {', '.join(model.peft_config)}; load it with the name {TRAINED!r}")
    options: Any = model.peft_config[TRAINED]
    layers = [module for module in model.modules() if isinstance(module, LoraLayer)]
    kinds = {type(layer.lora_variant[TRAINED]).__name__ for layer in layers if TRAINED in layer.lora_variant}
    found = {name: getattr(options, name) for name in TRAINS_MORE if getattr(options, name, None)}
    if options.peft_type != "LORA":
        found["peft_type"] = str(options.peft_type.value)
    if getattr(options, "bias", "none") != "none":
        found["bias"] = options.bias
    if others := sorted(kind for kind in kinds if not kind.startswith("Dora")):
        found["variant"] = ", ".join(others)
    if found:
        listed = ", ".join(f"{name} = {value!r}" for name, value in found.items())
        raise PolicyError(
            f"the adapter has {listed}; only plain LoRA and DoRA adapters can be trained and merged. Merge it into its "
            "base with PEFT (merge_and_unload), save the result and set model.path to that folder"
        )


def base_model(model: Any) -> Any:
    """Return the transformers model without its adapter, or the model itself."""
    return model.get_base_model() if isinstance(model, PeftModel) else model


def rank_of(model: PeftModel) -> int:
    """Return the largest rank of the trained adapter."""
    trained = model.peft_config[TRAINED]
    return max([trained.r, *trained.rank_pattern.values()])  # pyright: ignore[reportAttributeAccessIssue]


def is_dora(model: PeftModel) -> bool:
    """Return whether the trained adapter has magnitude vectors (DoRA, arXiv 2402.09353)."""
    options: Any = model.peft_config[TRAINED]
    return bool(options.use_dora)


def save_options(model: Any) -> dict[str, Any]:
    """Return ``save_pretrained`` options that save only the trained adapter, not the reference adapter."""
    if not isinstance(model, PeftModel):
        return {}
    is_gguf = str(getattr(model.peft_config[TRAINED], "base_model_name_or_path", "")).endswith(".gguf")
    own = {"save_embedding_layers": False} if is_gguf else {}  # PEFT would look for a config.json there
    return {"selected_adapters": [TRAINED], **own}


def adapter_tensors(model: PeftModel, name: str) -> dict[str, Tensor]:
    """Return the parameters of one adapter under names without the adapter's name."""
    named = ((key.split("."), parameter) for key, parameter in model.named_parameters())
    return {".".join(part for part in path if part != name): p for path, p in named if name in path}


def add_frozen_copy(model: PeftModel) -> None:
    """Add a frozen copy of the trained adapter, without dropout. The copy is created with the default initialisation,
    because some initialisations subtract their contribution from the base weights, which the policy shares.
    """
    options: Any = copy.copy(model.peft_config[TRAINED])
    options.lora_dropout, options.init_lora_weights = 0.0, True
    model.add_adapter(FROZEN, options)
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
    """Activate the reference adapter instead of the trained one."""
    model.set_adapter(FROZEN, inference_mode=True)
    try:
        yield
    finally:
        model.set_adapter(TRAINED)


def merged_weight(layer: Any, weight: Tensor) -> Tensor:
    r"""Return the weight of a layer with the trained adapter merged into it.

    LoRA: :math:`W' = W + \frac{\alpha}{r} B A`. DoRA (arXiv 2402.09353) rescales every output to its trained magnitude:
    :math:`m \, W' / \lVert W' \rVert`.
    """
    whole = weight + layer.get_delta_weight(TRAINED)
    if TRAINED not in layer.lora_magnitude_vector:
        return whole
    magnitude = layer.lora_magnitude_vector[TRAINED]
    inputs = 0 if magnitude.fan_in_fan_out else 1
    return whole * (magnitude.weight / whole.norm(dim=inputs)).unsqueeze(inputs)


def require_mergeable(base: nn.Module) -> None:
    """Raise if an adapted layer shares its weight with another layer: merging would make the two differ."""
    names = dict[int, list[str]]()
    for name, parameter in base.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    for shared in names.values():
        adapted = [name.partition(".base_layer.")[0] for name in shared if ".base_layer." in name]
        if adapted and len(shared) > 1:
            raise PolicyError(
                f"{' and '.join(shared)} are one tied weight, but the adapter changes only {' and '.join(adapted)}, so "
                f"it cannot be merged; remove {' and '.join(adapted)} from model.lora.targets"
            )


@torch.no_grad()
def plain_tensors(
    model: Any, *, merged: bool = True, rounded: torch.dtype | None = None
) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights under the names of the model without an adapter. The trained adapter is merged one matrix at a
    time (see :func:`merged_weight`), unless ``merged`` is false. Tied weights are yielded once.

    A merged weight has the wider dtype of its two parts, or the dtype ``rounded``.
    """
    base, seen = base_model(model), set[int]()
    if merged:
        require_mergeable(base)
    for name, tensor in base.state_dict().items():
        layer, _, part = name.partition(".base_layer.")
        if tensor.data_ptr() in seen or ".lora_" in name:
            continue
        seen.add(tensor.data_ptr())
        if not part:
            yield name, tensor
        elif not tensor.is_floating_point():
            raise PolicyError(f"{layer} is quantised ({tensor.dtype}) and cannot be merged; remove model.quantize")
        elif merged and part == "weight":
            whole = merged_weight(base.get_submodule(layer), tensor)
            yield f"{layer}.weight", whole.to(rounded or whole.dtype)
        else:
            yield f"{layer}.{part}", tensor
