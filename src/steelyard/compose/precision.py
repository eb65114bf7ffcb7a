"""Resolve ``model.dtype = "auto"`` on this machine."""

from __future__ import annotations

import logging

import torch

from steelyard.config import Config
from steelyard.errors import PolicyError
from steelyard.memory.footprint import USABLE_SHARE, TrainingSetup, footprint
from steelyard.memory.model_shape import find_shape
from steelyard.policies.device import choose_device, main_memory

log = logging.getLogger("steelyard.policies")


def resolve_dtype(config: Config) -> Config:
    """Replace ``model.dtype = "auto"`` with a fixed dtype, so that the run keeps it when resumed on another machine."""
    if config.model.dtype != "auto":
        return config
    dtype = automatic_dtype(config)
    log.info("model.dtype = 'auto' is %s on this machine", dtype)
    return config.model_copy(update={"model": config.model.model_copy(update={"dtype": dtype})})


def automatic_dtype(config: Config) -> str:
    """Choose the dtype of the weights.

    On a GPU that supports bfloat16, the weights are bfloat16. On a CPU they are float32, which is faster there, unless
    a pretrained model would not fit in main memory.
    """
    device = choose_device(config.model.device)
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    memory = main_memory()
    if device.type != "cpu" or config.model.path is None or memory is None:
        return "float32"
    return "float32" if _weights(config) <= USABLE_SHARE * memory else "bfloat16"


def _weights(config: Config) -> float:
    """Estimate the peak bytes of training the model in float32; 0 if its size cannot be read."""
    lora = config.model.lora
    training = TrainingSetup(4, 0 if lora is None else lora.rank, reference=config.loss.kl.active)
    try:
        return footprint(find_shape(config.model.path or ""), training).peak
    except PolicyError:
        return 0.0
