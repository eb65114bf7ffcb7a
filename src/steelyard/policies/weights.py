"""Loads saved weights into a model, and fingerprints weights to tell models apart."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, set_peft_model_state_dict
from safetensors.torch import load_file
from torch import Tensor, nn

from steelyard.errors import CheckpointError
from steelyard.policies.adapters import TRAINED
from steelyard.text import shortened


def load_into(model: nn.Module, folder: Path) -> None:
    """Load a saved model or adapter folder into a model of the same shape, bit for bit."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise CheckpointError(f"{folder} has no .safetensors file; pass the folder of a saved model or adapter")
    saved: dict[str, Tensor] = {}
    for file in files:
        saved.update(load_file(file))
    if isinstance(model, PeftModel):
        result = set_peft_model_state_dict(model, saved)
        wrong = list(result.unexpected_keys) + [name for name in result.missing_keys if f".{TRAINED}." in name]
    else:
        result = _load(model, saved, folder)
        wrong = list(result.unexpected_keys) + untied(model, result.missing_keys, saved)
    if wrong:
        raise CheckpointError(
            f"{folder} does not match the model: {len(wrong)} missing or unexpected weights, such as "
            f"{', '.join(wrong[:5])}; use the model the run was started with"
        )


def _load(model: nn.Module, saved: dict[str, Tensor], folder: Path) -> Any:
    try:
        return model.load_state_dict(saved, strict=False)
    except RuntimeError as error:  # shapes differ
        raise CheckpointError(
            f"{folder} does not match the model: {shortened(str(error), 300)}; use the model the run was started with"
        ) from error


def untied(model: nn.Module, missing: Iterable[str], saved: dict[str, Tensor]) -> list[str]:
    """Return the missing names whose weights do not share storage with a loaded weight (tied heads are saved once)."""
    state = model.state_dict()
    loaded = {state[name].data_ptr() for name in saved if name in state}
    return [name for name in missing if state[name].data_ptr() not in loaded]


def fingerprint(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """Hash names, shapes and the first 1024 numbers of each tensor (SHA-256), to tell models apart quickly."""
    digest = hashlib.sha256()
    for name, tensor in tensors:
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().flatten()[:1024].cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
